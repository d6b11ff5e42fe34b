#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

std::unique_ptr<Kernel> plan_copy(const NodeView& node, Scratch&) {
  return make_kernel([bytes = node.outputs[0].bytes()](const KernelArgs& args) {
    copy_bytes(args.out[0], args.in[0], bytes);
  });
}

/// Copies elements of the input to the output, both strided.
struct MovePlan {
  StridedLoop loop;  // input, output
  int64_t in_base = 0, out_base = 0;
  size_t zeroed = 0;  // bytes of the output cleared first
};

template <typename T>
void move(const MovePlan& p, const KernelArgs& args) {
  zero_bytes(args.out[0], p.zeroed);
  for_each_run(p.loop, [&](const StridedLoop::Offsets& at, int64_t count) {
    const T* in = args.input<T>(0) + p.in_base + at[0];
    T* out = args.output<T>(0) + p.out_base + at[1];
    const int64_t from = p.loop.step(0), to = p.loop.step(1);
    for (int64_t i = 0; i < count; ++i) out[i * to] = in[i * from];
  });
}

std::unique_ptr<Kernel> make_move(const NodeView& node, MovePlan plan) {
  return bind_size(node.outputs[0].dtype, std::move(plan), []<typename T>() { return move<T>; });
}

std::unique_ptr<Kernel> plan_transpose(const NodeView& node, Scratch&) {
  const std::vector<int64_t> in = row_major_strides(node.inputs[0].shape);
  std::vector<int64_t> strides;
  for (int64_t axis : node.attr<PermAttrs>().perm) strides.push_back(in[static_cast<size_t>(axis)]);
  const Shape& shape = node.outputs[0].shape;
  return make_move(node, {StridedLoop(shape, {strides, row_major_strides(shape)})});
}

std::unique_ptr<Kernel> plan_expand(const NodeView& node, Scratch&) {
  const Shape& shape = node.outputs[0].shape;
  return make_move(node, {StridedLoop(shape, {broadcast_strides(node.inputs[0].shape, shape),
                                              row_major_strides(shape)})});
}

/// Where a slice lies in the tensor of shape `whole`.
struct SliceLayout {
  std::vector<int64_t> strides;
  int64_t base = 0;

  SliceLayout(const Shape& whole, const SliceAttrs& attrs) : strides(row_major_strides(whole)) {
    for (size_t d = 0; d < strides.size(); ++d) {
      base += attrs.starts[d] * strides[d];
      strides[d] *= attrs.steps[d];
    }
  }
};

std::unique_ptr<Kernel> plan_slice(const NodeView& node, Scratch&) {
  const Shape& shape = node.outputs[0].shape;
  const SliceLayout slice(node.inputs[0].shape, node.attr<SliceAttrs>());
  return make_move(
      node, {StridedLoop(shape, {slice.strides, row_major_strides(shape)}), slice.base, 0, 0});
}

std::unique_ptr<Kernel> plan_slice_grad(const NodeView& node, Scratch&) {
  const Shape& shape = node.inputs[0].shape;
  const SliceLayout slice(node.outputs[0].shape, node.attr<SliceAttrs>());
  return make_move(node, {StridedLoop(shape, {row_major_strides(shape), slice.strides}), 0,
                          slice.base, node.outputs[0].bytes()});
}

/// Concat and Split: a whole tensor and its parts, as rows of bytes.
struct PartsPlan {
  int64_t outer = 1;
  size_t row = 0;             // bytes of the whole per outer index
  std::vector<size_t> parts;  // bytes of each part per outer index
};

PartsPlan parts_of(const TensorType& whole, std::span<const TensorType> parts, int64_t axis) {
  PartsPlan plan;
  const AxisView view(whole.shape, axis);
  const size_t element = dtype_size(whole.dtype);
  plan.outer = view.outer;
  plan.row = static_cast<size_t>(view.size * view.inner) * element;
  for (const TensorType& part : parts) {
    plan.parts.push_back(static_cast<size_t>(part.shape[static_cast<size_t>(axis)] * view.inner) *
                         element);
  }
  return plan;
}

void concat(const PartsPlan& p, const KernelArgs& args) {
  size_t begin = 0;
  for (size_t k = 0; k < p.parts.size(); ++k) {
    const char* part = args.input<char>(k);
    for (int64_t o = 0; o < p.outer; ++o) {
      copy_bytes(args.output<char>(0) + static_cast<size_t>(o) * p.row + begin,
                 part + static_cast<size_t>(o) * p.parts[k], p.parts[k]);
    }
    begin += p.parts[k];
  }
}

void split(const PartsPlan& p, const KernelArgs& args) {
  size_t begin = 0;
  for (size_t k = 0; k < p.parts.size(); ++k) {
    char* part = args.output<char>(k);
    for (int64_t o = 0; o < p.outer; ++o) {
      copy_bytes(part + static_cast<size_t>(o) * p.parts[k],
                 args.input<char>(0) + static_cast<size_t>(o) * p.row + begin, p.parts[k]);
    }
    begin += p.parts[k];
  }
}

std::unique_ptr<Kernel> plan_concat(const NodeView& node, Scratch&) {
  return bind(parts_of(node.outputs[0], node.inputs, node.attr<AxisAttrs>().axis), concat);
}

std::unique_ptr<Kernel> plan_split(const NodeView& node, Scratch&) {
  return bind(parts_of(node.inputs[0], node.outputs, node.attr<SplitAttrs>().axis), split);
}

struct TriluPlan {
  int64_t matrices, rows, columns, k;
  bool upper;
  size_t element;
};

// All bits zero is 0 for every element type.
void trilu(const TriluPlan& p, const KernelArgs& args) {
  const int64_t rows = p.matrices * p.rows;
  const size_t bytes = static_cast<size_t>(p.columns) * p.element;
#pragma omp parallel for schedule(static) if (rows * p.columns > kParallel)
  for (int64_t r = 0; r < rows; ++r) {
    const char* x = args.input<char>(0) + static_cast<size_t>(r) * bytes;
    char* y = args.output<char>(0) + static_cast<size_t>(r) * bytes;
    // First column of the upper part, or first column behind the lower part.
    const int64_t border = r % p.rows + (p.upper ? 0 : 1);
    const int64_t room = std::clamp(p.k, -border, p.columns);  // border + k without overflow
    const size_t cut =
        static_cast<size_t>(std::clamp(border + room, int64_t{0}, p.columns)) * p.element;
    if (p.upper) {
      zero_bytes(y, cut);
      copy_bytes(y + cut, x + cut, bytes - cut);
    } else {
      copy_bytes(y, x, cut);
      zero_bytes(y + cut, bytes - cut);
    }
  }
}

std::unique_ptr<Kernel> plan_trilu(const NodeView& node, Scratch&) {
  const TriluAttrs& attrs = node.attr<TriluAttrs>();
  const Shape& shape = node.outputs[0].shape;
  const size_t rank = shape.size();
  return bind(TriluPlan{element_count(std::span(shape).first(rank - 2)), shape[rank - 2],
                        shape[rank - 1], attrs.k, attrs.upper, dtype_size(node.outputs[0].dtype)},
              trilu);
}

struct ReorderPlan {
  int64_t images, channels, pixels;
  bool to_blocks;
  size_t element;
};

void reorder(const ReorderPlan& p, const KernelArgs& args) {
  constexpr int64_t kBlockChannels = 16;
  const int64_t blocks = div_up(p.channels, kBlockChannels), rows = p.images * blocks;
#pragma omp parallel for schedule(static) if (rows * kBlockChannels * p.pixels > kParallel)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t n = r / blocks, block = r % blocks;
    for (int64_t i = 0; i < p.pixels; ++i) {
      for (int64_t c = 0; c < kBlockChannels; ++c) {
        const int64_t channel = block * kBlockChannels + c;
        const auto plain =
            static_cast<size_t>((n * p.channels + channel) * p.pixels + i) * p.element;
        const auto blocked =
            static_cast<size_t>((r * p.pixels + i) * kBlockChannels + c) * p.element;
        if (channel >= p.channels) {
          if (p.to_blocks) zero_bytes(args.output<char>(0) + blocked, p.element);
        } else if (p.to_blocks) {
          copy_bytes(args.output<char>(0) + blocked, args.input<char>(0) + plain, p.element);
        } else {
          copy_bytes(args.output<char>(0) + plain, args.input<char>(0) + blocked, p.element);
        }
      }
    }
  }
}

std::unique_ptr<Kernel> plan_reorder(const NodeView& node, Scratch& scratch) {
  const TensorType &from = node.inputs[0], &to = node.outputs[0];
  if (from.layout == to.layout) return plan_copy(node, scratch);
  return bind(ReorderPlan{from.shape[0], from.shape[1], from.shape[2] * from.shape[3],
                          to.layout != Layout::kPlain, dtype_size(from.dtype)},
              reorder);
}

constexpr KernelRow kRows[] = {
    {Op::kIdentity, "reference", nullptr, plan_copy, true},
    {Op::kStopGradient, "reference", nullptr, plan_copy, true},
    {Op::kReshape, "reference", nullptr, plan_copy, true},
    {Op::kTranspose, "reference", nullptr, plan_transpose},
    {Op::kExpand, "reference", nullptr, plan_expand},
    {Op::kSlice, "reference", nullptr, plan_slice},
    {Op::kSliceGrad, "reference", nullptr, plan_slice_grad},
    {Op::kConcat, "reference", nullptr, plan_concat},
    {Op::kSplit, "reference", nullptr, plan_split},
    {Op::kTrilu, "reference", nullptr, plan_trilu, true},
    {Op::kReorder, "reference", nullptr, plan_reorder, false, true},
    {Op::kTransfer, "reference", nullptr, plan_copy},
};

}  // namespace

std::span<const KernelRow> reference_shape_kernels() { return kRows; }

}  // namespace trainrt::reference
