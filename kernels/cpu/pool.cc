// Pooling on plain tensors, plane by plane: every tap of the window sweeps a row of outputs.
#include <algorithm>
#include <array>
#include <limits>

#include "kernels/cpu/pool_axis.h"
#include "kernels/cpu/pool_rows.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

namespace trainrt {
namespace {

constexpr int64_t kPanel = 256;

struct Pool {
  std::array<PoolAxis, 3> axes;  // leading ones are trivial below three spatial dims
  int64_t planes;
  bool count_padding;

  Pool(const PoolAttrs& attr, const Shape& x)
      : planes(x[0] * x[1]), count_padding(attr.count_include_pad) {
    const size_t rank = attr.kernel.size();
    for (size_t d = 0; d < rank; ++d) {
      axes[3 - rank + d] = {x[d + 2],          attr.output[d],     attr.kernel[d],  attr.strides[d],
                            attr.dilations[d], attr.pads_begin[d], attr.pads_end[d]};
    }
  }

  int64_t in() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t window() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }

  /// row(output offset, o0, o1) for every row of outputs of a plane.
  template <typename F>
  void for_each_row(const F& row) const {
    int64_t at = 0;
    for (int64_t o0 = 0; o0 < axes[0].out; ++o0) {
      for (int64_t o1 = 0; o1 < axes[1].out; ++o1, at += axes[2].out) row(at, o0, o1);
    }
  }

  /// f(offset of an input row that the window of output row (o0, o1) meets), in row-major order.
  template <typename F>
  void for_each_input_row(int64_t o0, int64_t o1, const F& f) const {
    const auto [b0, e0] = axes[0].taps(o0);
    const auto [b1, e1] = axes[1].taps(o1);
    for (int64_t t0 = b0; t0 < e0; ++t0) {
      const int64_t i0 = axes[0].first_cell(o0) + t0 * axes[0].dilation;
      for (int64_t t1 = b1; t1 < e1; ++t1) {
        const int64_t i1 = axes[1].first_cell(o1) + t1 * axes[1].dilation;
        f((i0 * axes[1].in + i1) * axes[2].in);
      }
    }
  }

  /// step(tap offset, first output, last output) along the last axis, outputs within [low, high).
  template <typename F>
  void for_each_tap(int64_t low, int64_t high, const F& step) const {
    const PoolAxis& w = axes[2];
    for (int64_t t = 0; t < w.kernel; ++t) {
      const auto [first, last] = w.outputs(t);
      const int64_t begin = std::max(first, low), end = std::min(last, high);
      if (begin < end) step(t * w.dilation - w.pad, begin, end);
    }
  }

  template <typename F>
  void for_each_plane(const F& f) const {
    parallel_items(planes, in() + out() * window() / 2, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) f(p);
    });
  }

  /// The window covers the whole plane: global pooling.
  bool global() const {
    for (const PoolAxis& a : axes) {
      if (a.out != 1 || a.pad != 0 || a.dilation != 1 || a.kernel < a.in) return false;
    }
    return true;
  }
};

Support takes_pool(const NodeView& node) {
  if (float_only(node.inputs).ok == false) return float_only(node.inputs);
  const auto& attr = node.attr<PoolAttrs>();
  if (attr.kernel.size() > 3) return Support::no("takes one to three spatial dims");
  if (node.op == Op::kMaxPoolIndices && attr.column_major)
    return Support::no("takes row-major indices");
  const Shape& x = node.op == Op::kAveragePoolGrad ? attr.shape
                   : node.op == Op::kMaxPoolGrad   ? node.inputs[1].shape
                                                   : node.inputs[0].shape;
  const Pool pool(attr, x);
  if (pool.in() == 0 || pool.out() == 0) return Support::no("takes no empty operand");
  return pool.in() >= std::numeric_limits<int32_t>::max() / 2
             ? Support::no("takes planes below 2^30 elements")
             : Support::yes();
}

std::unique_ptr<Kernel> plan_max(const NodeView& node, Scratch&) {
  const Pool pool(node.attr<PoolAttrs>(), node.inputs[0].shape);
  return make_kernel([pool](const KernelArgs& args) {
    const PoolRows& rows = pool_rows_of_target();
    const PoolAxis& w = pool.axes[2];
    pool.for_each_plane([&](int64_t p) {
      const float* x = args.input<float>(0) + p * pool.in();
      float* y = args.output<float>(0) + p * pool.out();
      if (pool.global()) {
        *y = static_cast<float>(vector_ops().max(x, pool.in()));
        return;
      }
      pool.for_each_row([&](int64_t at, int64_t o0, int64_t o1) {
        float* best = y + at;
        std::fill(best, best + w.out, -std::numeric_limits<float>::infinity());
        pool.for_each_input_row(o0, o1, [&](int64_t from) {
          pool.for_each_tap(0, w.out, [&](int64_t offset, int64_t begin, int64_t end) {
            rows.max(x + from, w.in, w.stride, offset, begin, end, best);
          });
        });
      });
    });
  });
}

/// emit(output offset, offset of the window's first maximum in the plane or -1)
template <typename F>
void for_each_maximum(const Pool& pool, const float* x, const F& emit) {
  const PoolRows& rows = pool_rows_of_target();
  const PoolAxis& w = pool.axes[2];
  pool.for_each_row([&](int64_t row, int64_t o0, int64_t o1) {
    for (int64_t low = 0; low < w.out; low += kPanel) {
      const int64_t high = std::min(w.out, low + kPanel);
      float best[kPanel];
      int32_t at[kPanel];
      std::fill(best, best + (high - low), -std::numeric_limits<float>::infinity());
      std::fill(at, at + (high - low), -1);
      // Positions count from `low`, so that they index the buffers.
      const int64_t shift = low * w.stride;
      pool.for_each_input_row(o0, o1, [&](int64_t from) {
        pool.for_each_tap(low, high, [&](int64_t offset, int64_t begin, int64_t end) {
          rows.arg_max(x + from, w.in, w.stride, offset + shift, begin - low, end - low,
                       static_cast<int32_t>(from), best, at);
        });
      });
      for (int64_t j = low; j < high; ++j) emit(row + j, at[j - low]);
    }
  });
}

std::unique_ptr<Kernel> plan_max_indices(const NodeView& node, Scratch&) {
  const Pool pool(node.attr<PoolAttrs>(), node.inputs[0].shape);
  return make_kernel([pool](const KernelArgs& args) {
    pool.for_each_plane([&](int64_t p) {
      int64_t* y = args.output<int64_t>(0) + p * pool.out();
      for_each_maximum(pool, args.input<float>(0) + p * pool.in(),
                       [&](int64_t o, int32_t at) { y[o] = at < 0 ? -1 : p * pool.in() + at; });
    });
  });
}

std::unique_ptr<Kernel> plan_max_grad(const NodeView& node, Scratch&) {
  const Pool pool(node.attr<PoolAttrs>(), node.inputs[1].shape);
  return make_kernel([pool](const KernelArgs& args) {
    pool.for_each_plane([&](int64_t p) {
      const float* dy = args.input<float>(0) + p * pool.out();
      float* dx = args.output<float>(0) + p * pool.in();
      std::fill(dx, dx + pool.in(), 0.0f);
      for_each_maximum(pool, args.input<float>(1) + p * pool.in(), [&](int64_t o, int32_t at) {
        if (at >= 0) dx[at] += dy[o];
      });
    });
  });
}

/// 1 / cells of every output along each axis; their product is the factor of a mean.
std::array<std::vector<float>, 3> shares(const Pool& pool) {
  std::array<std::vector<float>, 3> result;
  for (size_t d = 0; d < 3; ++d) {
    for (int64_t o = 0; o < pool.axes[d].out; ++o) {
      result[d].push_back(1.0f / static_cast<float>(pool.axes[d].cells(o, pool.count_padding)));
    }
  }
  return result;
}

std::unique_ptr<Kernel> plan_average(const NodeView& node, Scratch&) {
  const Pool pool(node.attr<PoolAttrs>(), node.inputs[0].shape);
  return make_kernel([pool, share = shares(pool)](const KernelArgs& args) {
    const PoolRows& rows = pool_rows_of_target();
    const PoolAxis& w = pool.axes[2];
    const bool global = pool.global() && !pool.count_padding;
    pool.for_each_plane([&](int64_t p) {
      const float* x = args.input<float>(0) + p * pool.in();
      float* y = args.output<float>(0) + p * pool.out();
      if (global) {
        *y = static_cast<float>(vector_ops().sum(x, pool.in()) / static_cast<double>(pool.in()));
        return;
      }
      pool.for_each_row([&](int64_t at, int64_t o0, int64_t o1) {
        float* sum = y + at;
        std::fill(sum, sum + w.out, 0.0f);
        pool.for_each_input_row(o0, o1, [&](int64_t from) {
          pool.for_each_tap(0, w.out, [&](int64_t offset, int64_t begin, int64_t end) {
            rows.add(x + from, w.in, w.stride, offset, begin, end, sum);
          });
        });
        const float factor = share[0][static_cast<size_t>(o0)] * share[1][static_cast<size_t>(o1)];
        vector_ops().multiply(sum, share[2].data(), sum, w.out);
        vector_ops().affine(sum, factor, 0.0f, sum, w.out);
      });
    });
  });
}

std::unique_ptr<Kernel> plan_average_grad(const NodeView& node, Scratch&) {
  const Pool pool(node.attr<PoolAttrs>(), node.outputs[0].shape);
  return make_kernel([pool, share = shares(pool)](const KernelArgs& args) {
    const PoolAxis& w = pool.axes[2];
    const bool global = pool.global() && !pool.count_padding;
    pool.for_each_plane([&](int64_t p) {
      const float* dy = args.input<float>(0) + p * pool.out();
      float* dx = args.output<float>(0) + p * pool.in();
      if (global) {
        std::fill(dx, dx + pool.in(), *dy / static_cast<float>(pool.in()));
        return;
      }
      std::fill(dx, dx + pool.in(), 0.0f);
      pool.for_each_row([&](int64_t at, int64_t o0, int64_t o1) {
        const float factor = share[0][static_cast<size_t>(o0)] * share[1][static_cast<size_t>(o1)];
        for (int64_t low = 0; low < w.out; low += kPanel) {
          const int64_t high = std::min(w.out, low + kPanel);
          float part[kPanel];
          vector_ops().multiply(dy + at + low, share[2].data() + low, part, high - low);
          vector_ops().affine(part, factor, 0.0f, part, high - low);
          pool.for_each_input_row(o0, o1, [&](int64_t to) {
            pool.for_each_tap(low, high, [&](int64_t offset, int64_t begin, int64_t end) {
              float* row = dx + to + offset;
              for (int64_t j = begin; j < end; ++j) row[j * w.stride] += part[j - low];
            });
          });
        }
      });
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kMaxPool, "cpu.pool", takes_pool, plan_max, false},
    {Op::kMaxPoolIndices, "cpu.pool", takes_pool, plan_max_indices, false},
    {Op::kMaxPoolGrad, "cpu.pool", takes_pool, plan_max_grad, false},
    {Op::kAveragePool, "cpu.pool", takes_pool, plan_average, false},
    {Op::kAveragePoolGrad, "cpu.pool", takes_pool, plan_average_grad, false},
};

}  // namespace

std::span<const KernelRow> pool_rows() { return kRows; }

}  // namespace trainrt
