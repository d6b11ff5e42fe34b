// Ops that move bytes: Slice, Pad, Concat, Split, Expand and their gradients, Fill, Assign.
#include "kernels/cpu/copy.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/rows.h"

namespace trainrt {
namespace {

template <typename T>
void copy_strided(const StridedLoop<2>& loop, T* to, const T* from) {
  const int64_t n = loop.inner(), dt = loop.inner_stride(0), df = loop.inner_stride(1);
  parallel_items(loop.outer(), n, [&](int64_t begin, int64_t end) {
    auto cursor = loop.at(begin);
    for (int64_t r = begin; r < end; ++r, cursor.next()) {
      T* out = to + cursor.offset(0);
      const T* in = from + cursor.offset(1);
      if (df == 0 && dt == 1) {
        std::fill(out, out + n, *in);
      } else {
        for (int64_t i = 0; i < n; ++i) out[i * dt] = in[i * df];
      }
    }
  });
}

}  // namespace

void copy_box(const StridedLoop<2>& loop, size_t size, void* to, const void* from) {
  if (loop.total() == 0) return;
  if (loop.inner_stride(0) == 1 && loop.inner_stride(1) == 1) {
    char* out = static_cast<char*>(to);
    const char* in = static_cast<const char*>(from);
    const size_t run = static_cast<size_t>(loop.inner()) * size;
    if (loop.outer() == 1) return parallel_copy(out, in, run);
    parallel_items(loop.outer(), loop.inner(), [&](int64_t begin, int64_t end) {
      auto cursor = loop.at(begin);
      for (int64_t r = begin; r < end; ++r, cursor.next()) {
        copy_run(out + cursor.offset(0) * static_cast<int64_t>(size),
                 in + cursor.offset(1) * static_cast<int64_t>(size), run);
      }
    });
    return;
  }
  const auto typed = [&]<typename T>(T) {
    copy_strided(loop, static_cast<T*>(to), static_cast<const T*>(from));
  };
  switch (size) {
    case 1:
      return typed(uint8_t{});
    case 2:
      return typed(uint16_t{});
    case 4:
      return typed(uint32_t{});
    default:
      return typed(uint64_t{});
  }
}

namespace {

/// A value as the bytes of one element, and a fill with it.
struct Pattern {
  uint64_t bits = 0;
  size_t size = 0;

  Pattern(DType dtype, double value) : size(dtype_size(dtype)) {
    with_type(dtype, [&]<typename T>(T) {
      const T typed = static_cast<T>(value);
      std::memcpy(&bits, &typed, sizeof(T));
    });
  }

  void fill(void* to, int64_t n) const {
    if (bits == 0) return parallel_zero(to, static_cast<size_t>(n) * size);
    const auto typed = [&]<typename T>(T) {
      T* out = static_cast<T*>(to);
      parallel_ranges(n, kParallelElements, [&](int64_t begin, int64_t end) {
        std::fill(out + begin, out + end, static_cast<T>(bits));
      });
    };
    switch (size) {
      case 1:
        return typed(uint8_t{});
      case 2:
        return typed(uint16_t{});
      case 4:
        return typed(uint32_t{});
      default:
        return typed(uint64_t{});
    }
  }
};

Support takes_rank(const NodeView& node) {
  if (node.inputs[0].rank() > kMaxLoopRank || node.outputs[0].rank() > kMaxLoopRank) {
    return Support::no("takes tensors up to rank 8");
  }
  return Support::yes();
}

/// Strides and first offset of a slice within the whole tensor.
struct SliceWalk {
  std::vector<int64_t> strides;
  int64_t first = 0;

  SliceWalk(const SliceAttrs& attr, const Shape& whole) : strides(dense_strides(whole)) {
    for (size_t d = 0; d < whole.size(); ++d) {
      first += attr.starts[d] * strides[d];
      strides[d] *= attr.steps[d];
    }
  }
};

std::unique_ptr<Kernel> plan_slice(const NodeView& node, Scratch&) {
  const SliceWalk walk(node.attr<SliceAttrs>(), node.inputs[0].shape);
  const Shape& out = node.outputs[0].shape;
  const StridedLoop<2> loop(out, {dense_strides(out), walk.strides});
  const size_t size = dtype_size(node.outputs[0].dtype);
  const int64_t first = walk.first * static_cast<int64_t>(size);
  return make_kernel([=](const KernelArgs& args) {
    if (loop.total() != 0) copy_box(loop, size, args.out[0], args.input<char>(0) + first);
  });
}

std::unique_ptr<Kernel> plan_slice_grad(const NodeView& node, Scratch&) {
  const SliceWalk walk(node.attr<SliceAttrs>(), node.outputs[0].shape);
  const Shape& in = node.inputs[0].shape;
  const StridedLoop<2> loop(in, {walk.strides, dense_strides(in)});
  const size_t size = dtype_size(node.outputs[0].dtype), bytes = node.outputs[0].bytes();
  const int64_t first = walk.first * static_cast<int64_t>(size);
  return make_kernel([=](const KernelArgs& args) {
    parallel_zero(args.out[0], bytes);
    if (loop.total() != 0) copy_box(loop, size, args.output<char>(0) + first, args.in[0]);
  });
}

Support takes_pad(const NodeView& node) {
  return node.attr<PadAttrs>().mode == PadMode::kConstant ? takes_rank(node)
                                                          : Support::no("takes constant padding");
}

/// The part of the unpadded tensor that padding keeps, and where it lies in both.
struct PadWalk {
  Shape kept;
  int64_t whole_first = 0, padded_first = 0;
  std::vector<int64_t> whole, padded;

  PadWalk(const PadAttrs& attr, const Shape& whole_shape, const Shape& padded_shape)
      : whole(dense_strides(whole_shape)), padded(dense_strides(padded_shape)) {
    for (size_t d = 0; d < whole_shape.size(); ++d) {
      const int64_t crop = std::max<int64_t>(0, -attr.before[d]),
                    crop_end = std::max<int64_t>(0, -attr.after[d]);
      kept.push_back(std::max<int64_t>(0, whole_shape[d] - crop - crop_end));
      whole_first += crop * whole[d];
      padded_first += std::max<int64_t>(0, attr.before[d]) * padded[d];
    }
  }
};

std::unique_ptr<Kernel> plan_pad(const NodeView& node, Scratch&) {
  const auto& attr = node.attr<PadAttrs>();
  const PadWalk walk(attr, node.inputs[0].shape, node.outputs[0].shape);
  const StridedLoop<2> loop(walk.kept, {walk.padded, walk.whole});
  const Pattern pattern(node.outputs[0].dtype, attr.value);
  const int64_t n = node.outputs[0].size(), size = static_cast<int64_t>(pattern.size);
  const int64_t to = walk.padded_first * size, from = walk.whole_first * size;
  return make_kernel([=](const KernelArgs& args) {
    if (loop.total() != n) pattern.fill(args.out[0], n);
    if (loop.total() == 0) return;
    copy_box(loop, pattern.size, args.output<char>(0) + to, args.input<char>(0) + from);
  });
}

std::unique_ptr<Kernel> plan_pad_grad(const NodeView& node, Scratch&) {
  const PadWalk walk(node.attr<PadAttrs>(), node.outputs[0].shape, node.inputs[0].shape);
  const StridedLoop<2> loop(walk.kept, {walk.whole, walk.padded});
  const size_t size = dtype_size(node.outputs[0].dtype), bytes = node.outputs[0].bytes();
  const int64_t n = node.outputs[0].size();
  const int64_t to = walk.whole_first * static_cast<int64_t>(size),
                from = walk.padded_first * static_cast<int64_t>(size);
  return make_kernel([=](const KernelArgs& args) {
    if (loop.total() != n) parallel_zero(args.out[0], bytes);
    if (loop.total() == 0) return;
    copy_box(loop, size, args.output<char>(0) + to, args.input<char>(0) + from);
  });
}

std::unique_ptr<Kernel> plan_expand(const NodeView& node, Scratch&) {
  const Shape& out = node.outputs[0].shape;
  const StridedLoop<2> loop(out,
                            {dense_strides(out), broadcast_strides(node.inputs[0].shape, out)});
  const size_t size = dtype_size(node.outputs[0].dtype);
  return make_kernel(
      [=](const KernelArgs& args) { copy_box(loop, size, args.out[0], args.in[0]); });
}

/// Parts that lie side by side along an axis: of every outer index, part i covers `runs[i]` bytes.
struct Parts {
  int64_t outer = 1;
  size_t whole = 0;
  std::vector<size_t> offsets, runs;

  Parts(std::span<const TensorType> parts, size_t axis) {
    outer = size_of(parts[0].shape, 0, axis);
    for (const TensorType& t : parts) {
      const int64_t run = size_of(t.shape, axis, t.shape.size());
      offsets.push_back(whole);
      runs.push_back(static_cast<size_t>(run) * dtype_size(t.dtype));
      whole += runs.back();
    }
  }

  /// copy(part, offset within the whole, offset within the part, bytes)
  template <typename F>
  void for_each(const F& copy) const {
    parallel_items(outer, static_cast<int64_t>(whole / 4), [&](int64_t begin, int64_t end) {
      for (size_t p = 0; p < runs.size(); ++p) {
        for (int64_t o = begin; o < end; ++o) {
          const size_t row = static_cast<size_t>(o);
          copy(p, row * whole + offsets[p], row * runs[p], runs[p]);
        }
      }
    });
  }
};

std::unique_ptr<Kernel> plan_concat(const NodeView& node, Scratch&) {
  const size_t axis = static_cast<size_t>(node.attr<AxisAttrs>().axis);
  return make_kernel([parts = Parts(node.inputs, axis)](const KernelArgs& args) {
    parts.for_each([&](size_t p, size_t whole, size_t part, size_t bytes) {
      copy_run(args.output<char>(0) + whole, args.input<char>(p) + part, bytes);
    });
  });
}

std::unique_ptr<Kernel> plan_split(const NodeView& node, Scratch&) {
  const size_t axis = static_cast<size_t>(node.attr<SplitAttrs>().axis);
  return make_kernel([parts = Parts(node.outputs, axis)](const KernelArgs& args) {
    parts.for_each([&](size_t p, size_t whole, size_t part, size_t bytes) {
      copy_run(args.output<char>(p) + part, args.input<char>(0) + whole, bytes);
    });
  });
}

Support takes_fill(const NodeView& node) {
  const DType t = node.outputs[0].dtype;
  return t == DType::kFloat16 || t == DType::kBFloat16 ? Support::no("takes no 16-bit floats")
                                                       : Support::yes();
}

std::unique_ptr<Kernel> plan_fill(const NodeView& node, Scratch&) {
  const Pattern pattern(node.outputs[0].dtype, node.attr<FillAttrs>().value);
  const int64_t n = node.outputs[0].size();
  return make_kernel([=](const KernelArgs& args) { pattern.fill(args.out[0], n); });
}

std::unique_ptr<Kernel> plan_constant(const NodeView& node, Scratch&) {
  return make_kernel([value = node.attr<ConstantAttrs>().value](const KernelArgs& args) {
    parallel_copy(args.out[0], value.raw(), value.bytes());
  });
}

std::unique_ptr<Kernel> plan_assign(const NodeView& node, Scratch&) {
  const size_t bytes = node.outputs[0].bytes();
  return make_kernel([=](const KernelArgs& args) {
    if (args.out[0] != args.in[1]) parallel_copy(args.out[0], args.in[1], bytes);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kSlice, "cpu.copy", takes_rank, plan_slice, false},
    {Op::kSliceGrad, "cpu.copy", takes_rank, plan_slice_grad, false},
    {Op::kPad, "cpu.copy", takes_pad, plan_pad, false},
    {Op::kPadGrad, "cpu.copy", takes_pad, plan_pad_grad, false},
    {Op::kExpand, "cpu.copy", takes_rank, plan_expand, false},
    {Op::kConcat, "cpu.copy", nullptr, plan_concat, false},
    {Op::kSplit, "cpu.copy", nullptr, plan_split, false},
    {Op::kFill, "cpu.copy", takes_fill, plan_fill, false},
    {Op::kConstant, "cpu.copy", nullptr, plan_constant, false},
    {Op::kAssign, "cpu.copy", nullptr, plan_assign, false},
};

}  // namespace

std::span<const KernelRow> copy_rows() { return kRows; }

}  // namespace trainrt
