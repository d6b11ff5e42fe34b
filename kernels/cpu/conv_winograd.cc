// 3x3 convolutions of stride 1 and their gradients by Winograd's F(4x4, 3x3), in float32 on blocks
// of 16 channels: on whole tiles 4 times fewer multiplications than the direct method. Rounding
// errors are larger than the direct method's, and a NaN or an infinity spreads over its tile.
#include <algorithm>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/winograd.h"

namespace trainrt {
namespace {

constexpr int64_t kBlock = 16;
constexpr int64_t kFewest = 32;  // channels on either side

size_t floats(int64_t n) { return sizeof(float) * static_cast<size_t>(n); }

Support takes_winograd(const NodeView& node) {
  Support s = all_float(node);
  if (!s.ok) return s;
  const auto [x, w, y] = conv_operands(node);
  const auto& attr = node.attr<ConvAttrs>();
  if (x.layout != Layout::kNChw16c || y.layout != Layout::kNChw16c) {
    return Support::no("takes activations in nChw16c");
  }
  const auto all = [](const std::vector<int64_t>& list, int64_t most) {
    return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v <= most; });
  };
  if (w.shape[2] != 3 || w.shape[3] != 3 || !all(attr.strides, 1) || !all(attr.dilations, 1) ||
      attr.group != 1) {
    return Support::no("takes 3x3 filters, stride 1, no dilation, one group");
  }
  if (!all(attr.pads_begin, 2) || !all(attr.pads_end, 2)) {
    return Support::no("takes pads of at most 2");
  }
  for (int64_t channels : {x.shape[1], y.shape[1]}) {
    if (channels % kBlock != 0 || channels < kFewest) {
      return Support::no("takes channels in whole blocks of 16, 32 or more");
    }
  }
  return x.size() == 0 || y.size() == 0 ? Support::no("takes no empty operand") : s;
}

WinogradImage image_of(const Shape& s) { return {s[1], s[2], s[3], 0, 0, 0, 0}; }

/// Operand and result of one pass, seen as tiles of the result.
struct Tiling {
  WinogradImage in, out;
  int64_t count;  // tiles of the batch

  Tiling(const Shape& from, const Shape& to, int64_t pad_top, int64_t pad_left)
      : in(image_of(from)), out(image_of(to)) {
    in.pad_top = pad_top;
    in.pad_left = pad_left;
    in.tiles_down = out.tiles_down = div_up(to[2], 4);
    in.tiles_across = out.tiles_across = div_up(to[3], 4);
    count = to[0] * in.tiles_down * in.tiles_across;
  }
};

/// Channels [0, count) in panels.
struct Panels {
  int64_t channels, width;
  int64_t count() const { return div_up(channels, width); }
  int64_t begin(int64_t p) const { return p * width; }
  int64_t size(int64_t p) const { return std::min(width, channels - p * width); }
};

/// Forward, or the gradient to the operand, which is a forward pass with turned weights.
class WinogradConv final : public Kernel {
 public:
  WinogradConv(const NodeView& node, Scratch& scratch)
      : tiling_(make_tiling(node)),
        bias_(node.inputs.size() == 3),
        relu_(node.attr<ConvAttrs>().relu),
        inputs_(tiling_.in.channels),
        outputs_(tiling_.out.channels),
        threads_(cpu_threads()) {
    const int64_t filter = node.inputs[1].shape[1] * 9;
    const bool forward = node.op == Op::kConv;
    weights_ = {nullptr, forward ? filter : 9, forward ? 9 : filter, !forward};
    // Weights of many channels on few tiles are transformed panel by panel where they are used.
    stream_ = tiling_.count <= outputs_ || tiling_.count < 2 * threads_ * kWinogradRows;
    panels_ = {outputs_, kWinogradPanel};
    if (stream_) {
      panels_.width =
          std::clamp(round_up(div_up(outputs_, threads_), kBlock), kBlock, kWinogradPanel);
    }
    const int64_t wanted = inputs_ + outputs_ <= 128 ? 30 : inputs_ + outputs_ <= 256 ? 36 : 66;
    tiles_ = round_up(stream_ ? tiling_.count : std::min(wanted, tiling_.count), kWinogradRows);
    const int64_t v = kWinogradPoints * inputs_ * tiles_;
    if (stream_) {
      shared_ = v;
      own_ = kWinogradPoints * (kBlock * panels_.width + panels_.width * tiles_);
    } else {
      shared_ = kWinogradPoints * inputs_ * outputs_;
      own_ = v + kWinogradPoints * outputs_ * tiles_;
    }
    offset_ = book(scratch, floats(shared_ + own_ * threads_));
  }

  void run(const KernelArgs& args) const override {
    WinogradWeights weights = weights_;
    weights.w = args.input<float>(1);
    float* shared = scratch_at<float>(args, offset_);
    if (stream_) {
      run_panels(args, weights, shared);
    } else {
      run_tiles(args, weights, shared);
    }
  }

 private:
  static Tiling make_tiling(const NodeView& node) {
    const auto& attr = node.attr<ConvAttrs>();
    const bool forward = node.op == Op::kConv;
    const auto pad = [&](size_t d) {
      return forward ? attr.pads_begin[d] : 2 - attr.pads_begin[d];
    };
    return Tiling(node.inputs[0].shape, node.outputs[0].shape, pad(0), pad(1));
  }

  const float* bias(const KernelArgs& args) const { return bias_ ? args.input<float>(2) : nullptr; }

  /// f(thread's scratch, item) for items shared out in runs.
  template <typename F>
  void for_each(int64_t items, float* own, const F& f) const {
    parallel_ranges(threads_, 1, [&](int64_t from, int64_t to) {
      for (int64_t t = from; t < to; ++t) {
        for (int64_t i = items * t / threads_; i < items * (t + 1) / threads_; ++i) {
          f(own + t * own_, i);
        }
      }
    });
  }

  void run_tiles(const KernelArgs& args, const WinogradWeights& weights, float* u) const {
    const WinogradOps& ops = winograd_ops();
    const int64_t blocks = inputs_ / kBlock;
    for_each(panels_.count() * blocks, u, [&](float*, int64_t i) {
      const int64_t p = i / blocks, c = i % blocks * kBlock, width = panels_.size(p);
      float* panel = u + kWinogradPoints * inputs_ * panels_.begin(p);
      ops.transform_weights(weights, panels_.begin(p), width, c, c + kBlock, inputs_ * width,
                            panel + c * width);
    });
    for_each(div_up(tiling_.count, tiles_), u + shared_, [&](float* v, int64_t i) {
      float* m = v + kWinogradPoints * inputs_ * tiles_;
      const int64_t first = i * tiles_, count = std::min(tiles_, tiling_.count - first);
      const int64_t rows = round_up(count, kWinogradRows);
      ops.transform_input(tiling_.in, args.input<float>(0), first, count, tiles_, 0, blocks, v);
      for (int64_t point = 0; point < kWinogradPoints; ++point) {
        const float* left = v + point * inputs_ * tiles_;
        float* out = m + point * outputs_ * tiles_;
        for (int64_t p = 0; p < panels_.count(); ++p) {
          const int64_t width = panels_.size(p);
          const float* panel =
              u + kWinogradPoints * inputs_ * panels_.begin(p) + point * inputs_ * width;
          ops.product(left, panel, inputs_, width, rows, tiles_, false,
                      out + panels_.begin(p) * tiles_);
        }
      }
      ops.transform_output(tiling_.out, m, outputs_ * tiles_, first, count, tiles_, 0,
                           outputs_ / kBlock, bias(args), relu_, args.output<float>(0));
    });
  }

  void run_panels(const KernelArgs& args, const WinogradWeights& weights, float* v) const {
    const WinogradOps& ops = winograd_ops();
    for_each(inputs_ / kBlock, v, [&](float*, int64_t block) {
      ops.transform_input(tiling_.in, args.input<float>(0), 0, tiling_.count, tiles_, block,
                          block + 1, v);
    });
    for_each(panels_.count(), v + shared_, [&](float* u, int64_t p) {
      const int64_t begin = panels_.begin(p), width = panels_.size(p);
      float* m = u + kWinogradPoints * kBlock * panels_.width;
      for (int64_t c = 0; c < inputs_; c += kBlock) {
        ops.transform_weights(weights, begin, width, c, c + kBlock, kBlock * width, u);
        for (int64_t point = 0; point < kWinogradPoints; ++point) {
          ops.product(v + (point * inputs_ + c) * tiles_, u + point * kBlock * width, kBlock, width,
                      tiles_, tiles_, c > 0, m + point * width * tiles_);
        }
      }
      ops.transform_output(tiling_.out, m, width * tiles_, 0, tiling_.count, tiles_, begin / kBlock,
                           (begin + width) / kBlock, bias(args), relu_, args.output<float>(0));
    });
  }

  Tiling tiling_;
  bool bias_, relu_, stream_ = false;
  int64_t inputs_, outputs_, threads_;
  WinogradWeights weights_{};
  Panels panels_{};
  int64_t tiles_ = 0;             // room in a block of tiles
  int64_t shared_ = 0, own_ = 0;  // floats for all threads, and for each
  size_t offset_ = 0;
};

/// dw = G^T (sum over tiles of V Z) G, the exact adjoint of the forward pass.
class WinogradWeightGrad final : public Kernel {
 public:
  WinogradWeightGrad(const NodeView& node, Scratch& scratch)
      : tiling_(node.inputs[0].shape, node.inputs[1].shape, node.attr<ConvAttrs>().pads_begin[0],
                node.attr<ConvAttrs>().pads_begin[1]),
        inputs_(tiling_.in.channels),
        outputs_(tiling_.out.channels),
        panels_{outputs_, kWinogradPanel},
        threads_(cpu_threads()) {
    // All tiles at once where they fit the shared cache, so that no sums have to be kept.
    constexpr int64_t kFits = int64_t{2} << 20;  // floats
    const bool whole = kWinogradPoints * (inputs_ + outputs_) * tiling_.count <= kFits;
    tiles_ = whole ? tiling_.count : std::min<int64_t>(tiling_.count, 56);
    single_ = tiles_ == tiling_.count;
    v_ = kWinogradPoints * inputs_ * tiles_;
    z_ = kWinogradPoints * outputs_ * tiles_;
    sums_ = single_ ? kWinogradPoints * 4 * kWinogradPanel * threads_
                    : kWinogradPoints * inputs_ * outputs_;
    offset_ = book(scratch, floats(v_ + z_ + sums_));
  }

  void run(const KernelArgs& args) const override {
    const WinogradOps& ops = winograd_ops();
    float *v = scratch_at<float>(args, offset_), *z = v + v_, *sums = z + z_;
    const int64_t blocks = inputs_ / kBlock, groups = inputs_ / 4;
    for (int64_t first = 0; first < tiling_.count; first += tiles_) {
      const int64_t count = std::min(tiles_, tiling_.count - first);
      const bool last = first + tiles_ >= tiling_.count;
      parallel_ranges(blocks + outputs_ / kBlock, 1, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) {
          if (i < blocks) {
            ops.transform_input(tiling_.in, args.input<float>(0), first, count, tiles_, i, i + 1,
                                v);
          } else {
            ops.transform_gradient(tiling_.out, args.input<float>(1), first, count, tiles_,
                                   i - blocks, i - blocks + 1, z);
          }
        }
      });
      const int64_t items = groups * panels_.count();
      parallel_ranges(threads_, 1, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) {
          for (int64_t i = items * t / threads_; i < items * (t + 1) / threads_; ++i) {
            const int64_t p = i / groups, c = i % groups * 4;
            const int64_t begin = panels_.begin(p), width = panels_.size(p);
            float* sum = single_ ? sums + t * kWinogradPoints * 4 * kWinogradPanel
                                 : sums + kWinogradPoints * (begin * inputs_ + c * width);
            for (int64_t point = 0; point < kWinogradPoints; ++point) {
              ops.weight_product(v + (point * inputs_ + c / kBlock * kBlock) * tiles_ + c % kBlock,
                                 z + (point * outputs_ + begin) * tiles_, width, count, tiles_,
                                 first > 0, sum + point * 4 * width);
            }
            if (last) ops.weight_gradient(sum, c, begin, width, inputs_, args.output<float>(0));
          }
        }
      });
    }
  }

 private:
  Tiling tiling_;
  int64_t inputs_, outputs_;
  Panels panels_;
  int64_t threads_;
  int64_t tiles_ = 0, v_ = 0, z_ = 0, sums_ = 0;
  bool single_ = false;
  size_t offset_ = 0;
};

std::unique_ptr<Kernel> plan_conv(const NodeView& node, Scratch& scratch) {
  return std::make_unique<WinogradConv>(node, scratch);
}

std::unique_ptr<Kernel> plan_weight_grad(const NodeView& node, Scratch& scratch) {
  return std::make_unique<WinogradWeightGrad>(node, scratch);
}

constexpr KernelRow kRows[] = {
    {Op::kConv, "cpu.winograd", takes_winograd, plan_conv, false, true},
    {Op::kConvDataGrad, "cpu.winograd", takes_winograd, plan_conv, false, true},
    {Op::kConvWeightGrad, "cpu.winograd", takes_winograd, plan_weight_grad, false, true},
};

}  // namespace

std::span<const KernelRow> winograd_rows() { return kRows; }

}  // namespace trainrt
