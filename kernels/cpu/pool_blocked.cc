// Max pooling over blocks of 16 channels: each tap of the window sweeps a row of outputs, all
// channels of a block at once.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/block_ops.h"
#include "kernels/cpu/pool_axis.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {
namespace {

// Outputs whose maxima are kept on the stack.
constexpr int64_t kPanel = 32;
constexpr uint16_t kBf16NegativeInfinity = 0xFF80;

struct BlockedPool {
  int64_t planes;  // blocks of channels of all images
  PoolAxis h, w;
  int64_t threads;

  BlockedPool(const PoolAttrs& a, const Shape& x)
      : planes(x[0] * ((x[1] + kBlockChannels - 1) / kBlockChannels)),
        h{x[2],           a.output[0],     a.kernel[0],  a.strides[0],
          a.dilations[0], a.pads_begin[0], a.pads_end[0]},
        w{x[3],           a.output[1],     a.kernel[1],  a.strides[1],
          a.dilations[1], a.pads_begin[1], a.pads_end[1]},
        threads(std::clamp<int64_t>(
            planes * (in() + out() * h.kernel * w.kernel / 2) / (kParallelElements / 2), 1,
            cpu_threads())) {}

  int64_t in() const { return h.in * w.in * kBlockChannels; }
  int64_t out() const { return h.out * w.out * kBlockChannels; }

  /// f(plane, thread)
  template <typename F>
  void for_each_plane(const F& f) const {
    parallel_ranges(threads, 1, [&](int64_t from, int64_t to) {
      for (int64_t t = from; t < to; ++t) {
        for (int64_t p = planes * t / threads; p < planes * (t + 1) / threads; ++p) f(p, t);
      }
    });
  }

  /// f(output row, first output, outputs) for panels of outputs of a plane.
  template <typename F>
  void for_each_panel(const F& f) const {
    for (int64_t o = 0; o < h.out; ++o) {
      for (int64_t low = 0; low < w.out; low += kPanel) f(o, low, std::min(kPanel, w.out - low));
    }
  }

  /// f(number of the tap, offset of its cell for the panel's output `first`, first, count): the
  /// outputs [first, first + count) of the panel whose cells lie inside, taps in row-major order.
  template <typename F>
  void for_each_tap(int64_t o, int64_t low, int64_t outputs, const F& f) const {
    const auto [t0, t1] = h.taps(o);
    for (int64_t t = t0; t < t1; ++t) {
      const int64_t row = (h.first_cell(o) + t * h.dilation) * w.in;
      for (int64_t u = 0; u < w.kernel; ++u) {
        const auto [b, e] = w.outputs(u);
        const int64_t first = std::max(b, low), last = std::min(e, low + outputs);
        if (first >= last) continue;
        const int64_t cell = row + w.first_cell(first) + u * w.dilation;
        f(t * w.kernel + u, cell * kBlockChannels, first - low, last - first);
      }
    }
  }
};

Support takes_pool(const NodeView& node) {
  Support s = blocks_of_one_type(node);
  if (!s.ok) return s;
  for (const auto list : {node.inputs, node.outputs}) {
    for (const TensorType& t : list) {
      if (t.layout != Layout::kNChw16c) return Support::no("takes activations in nChw16c");
    }
  }
  return node.outputs[0].size() == 0 || node.inputs[0].size() == 0
             ? Support::no("takes no empty operand")
             : s;
}

template <typename T>
std::unique_ptr<Kernel> plan_max(const NodeView& node, Scratch&) {
  const BlockedPool pool(node.attr<PoolAttrs>(), node.inputs[0].shape);
  T least;
  if constexpr (std::is_same_v<T, float>) {
    least = -std::numeric_limits<float>::infinity();
  } else {
    least = kBf16NegativeInfinity;
  }
  return make_kernel([=](const KernelArgs& args) {
    pool.for_each_plane([&](int64_t p, int64_t) {
      const T* x = args.input<T>(0) + p * pool.in();
      T* y = args.output<T>(0) + p * pool.out();
      pool.for_each_panel([&](int64_t o, int64_t low, int64_t outputs) {
        T* best = y + (o * pool.w.out + low) * kBlockChannels;
        std::fill_n(best, outputs * kBlockChannels, least);
        pool.for_each_tap(
            o, low, outputs, [&](int64_t, int64_t cell, int64_t first, int64_t count) {
              block_ops<T>().max(x + cell, pool.w.stride, best + first * kBlockChannels, count);
            });
      });
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> plan_max_grad(const NodeView& node, Scratch& scratch) {
  const BlockedPool pool(node.attr<PoolAttrs>(), node.inputs[1].shape);
  // Sums of a plane that are kept as bfloat16 in the end.
  constexpr bool kNarrow = !std::is_same_v<T, float>;
  const size_t planes =
      kNarrow ? book(scratch, sizeof(float) * static_cast<size_t>(pool.in() * pool.threads)) : 0;
  return make_kernel([=](const KernelArgs& args) {
    const BlockOps<T>& ops = block_ops<T>();
    pool.for_each_plane([&](int64_t p, int64_t thread) {
      const T* dy = args.input<T>(0) + p * pool.out();
      const T* x = args.input<T>(1) + p * pool.in();
      [[maybe_unused]] const int64_t own = thread * pool.in();
      float* dx;
      if constexpr (kNarrow) {
        dx = scratch_at<float>(args, planes) + own;
      } else {
        dx = args.output<float>(0) + p * pool.in();
      }
      std::fill_n(dx, pool.in(), 0.0f);
      pool.for_each_panel([&](int64_t o, int64_t low, int64_t outputs) {
        alignas(64) float best[kPanel * kBlockChannels];
        alignas(64) int32_t at[kPanel * kBlockChannels];
        std::fill_n(best, outputs * kBlockChannels, -std::numeric_limits<float>::infinity());
        std::fill_n(at, outputs * kBlockChannels, -1);
        const T* panel = dy + (o * pool.w.out + low) * kBlockChannels;
        pool.for_each_tap(
            o, low, outputs, [&](int64_t tap, int64_t cell, int64_t first, int64_t count) {
              ops.arg_max(x + cell, pool.w.stride, static_cast<int32_t>(tap),
                          best + first * kBlockChannels, at + first * kBlockChannels, count);
            });
        pool.for_each_tap(o, low, outputs,
                          [&](int64_t tap, int64_t cell, int64_t first, int64_t count) {
                            ops.scatter(panel + first * kBlockChannels, at + first * kBlockChannels,
                                        static_cast<int32_t>(tap), pool.w.stride, dx + cell, count);
                          });
      });
      if constexpr (kNarrow) to_bf16(dx, args.output<T>(0) + p * pool.in(), pool.in());
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kMaxPool, "cpu.pool_blocked", takes_pool,
     plan_by_type<plan_max<float>, plan_max<uint16_t>>, false, true, true},
    {Op::kMaxPoolGrad, "cpu.pool_blocked", takes_pool,
     plan_by_type<plan_max_grad<float>, plan_max_grad<uint16_t>>, false, true, true},
};

}  // namespace

std::span<const KernelRow> pool_blocked_rows() { return kRows; }

}  // namespace trainrt
