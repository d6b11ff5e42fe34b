// Ops that only move elements, by the size of those: Transpose, Expand, Slice, Concat, Split, Pad,
// Trilu and the gradients.
#include "kernels/cuda/device/movement.h"

#include <cstring>

#include "kernels/cuda/strided.h"

namespace trainrt::cuda {
namespace {

/// Every operand kept as bfloat16, or none.
Support takes_moves(const NodeView& node) {
  const bool half = node.outputs[0].dtype == DType::kBFloat16;
  for (const auto types : {node.inputs, node.outputs}) {
    for (const TensorType& t : types) {
      if ((t.dtype == DType::kBFloat16) != half) return Support::no("takes all or no bfloat16");
    }
  }
  return Support::yes();
}

int64_t element_bytes(const TensorType& type) {
  return static_cast<int64_t>(dtype_size(type.dtype));
}

/// Copies by a walk of input and output; `zeroed` bytes of the output are cleared first.
std::unique_ptr<Kernel> plan_walk(Dims<2> dims, int64_t in_base, int64_t out_base, int64_t element,
                                  size_t zeroed, Scratch& scratch) {
  const int64_t unit = widen(dims, element, {&in_base, &out_base});
  CopyArguments args{nullptr, nullptr, dims.count(), in_base, out_base, dims.walk()};
  const bool plain = dims.sizes.empty() ||
                     (dims.sizes.size() == 1 && dims.strides[0][0] == 1 && dims.strides[1][0] == 1);
  const gpu::Function* f = function_by_size(scratch, "copy", unit, is_far(args.count));
  return make_kernel([=](const KernelArgs& k) {
    if (zeroed > 0) k.stream->zero(k.out[0], zeroed);
    if (args.count == 0) return;
    if (plain) {
      return k.stream->copy_on_device(k.output<char>(0) + args.out_base * unit,
                                      k.input<char>(0) + args.in_base * unit,
                                      static_cast<size_t>(args.count * unit));
    }
    CopyArguments a = args;
    a.in = k.in[0];
    a.out = k.out[0];
    k.stream->launch(f, blocks_for(a.count), kThreads, a);
  });
}

/// Tiles where the innermost dims of input and output differ and both are long; else nothing.
std::unique_ptr<Kernel> plan_tiles(const Dims<2>& dims, int64_t element, Scratch& scratch) {
  constexpr int64_t kLong = 8;
  const size_t rank = dims.sizes.size();
  if (rank < 2) return nullptr;
  const size_t rows = rank - 1;
  size_t columns = rank;
  for (size_t d = 0; d < rows; ++d) {
    if (dims.strides[0][d] == 1) columns = d;
  }
  if (columns == rank || dims.sizes[rows] < kLong || dims.sizes[columns] < kLong) return nullptr;
  TransposeArguments args{};
  args.rows = dims.sizes[rows];
  args.columns = dims.sizes[columns];
  args.in_row = dims.strides[0][rows];
  args.out_column = dims.strides[1][columns];
  args.row_tiles = (args.rows + kTile - 1) / kTile;
  args.column_tiles = (args.columns + kTile - 1) / kTile;
  args.by_row_tiles = divisor(args.row_tiles);
  args.by_column_tiles = divisor(args.column_tiles);
  Dims<2> matrices = dims;
  for (auto* list : {&matrices.sizes, &matrices.strides[0], &matrices.strides[1]}) {
    list->erase(list->begin() + static_cast<ptrdiff_t>(rows));
    list->erase(list->begin() + static_cast<ptrdiff_t>(columns));
  }
  args.walk = matrices.walk();
  args.tiles = matrices.count() * args.row_tiles * args.column_tiles;
  const gpu::Function* f = function_by_size(scratch, "transpose", element, is_far(args.tiles));
  return make_kernel([=](const KernelArgs& k) {
    if (args.tiles == 0) return;
    TransposeArguments a = args;
    a.in = k.in[0];
    a.out = k.out[0];
    k.stream->launch(f, blocks_of(a.tiles), kThreads, a);
  });
}

std::unique_ptr<Kernel> plan_transpose(const NodeView& node, Scratch& scratch) {
  const Strides in = row_major(node.inputs[0].shape);
  Strides strides;
  for (int64_t axis : node.attr<PermAttrs>().perm) strides.push_back(in[static_cast<size_t>(axis)]);
  const Shape& shape = node.outputs[0].shape;
  const Dims<2> dims(shape, {strides, row_major(shape)});
  const int64_t element = element_bytes(node.outputs[0]);
  std::unique_ptr<Kernel> tiles = plan_tiles(dims, element, scratch);
  return tiles ? std::move(tiles) : plan_walk(dims, 0, 0, element, 0, scratch);
}

std::unique_ptr<Kernel> plan_expand(const NodeView& node, Scratch& scratch) {
  const Shape& shape = node.outputs[0].shape;
  return plan_walk(Dims<2>(shape, {broadcast(node.inputs[0].shape, shape), row_major(shape)}), 0, 0,
                   element_bytes(node.outputs[0]), 0, scratch);
}

/// Where a slice lies in the tensor of shape `whole`.
struct SliceLayout {
  Strides strides;
  int64_t base = 0;

  SliceLayout(const Shape& whole, const SliceAttrs& attrs) : strides(row_major(whole)) {
    for (size_t d = 0; d < strides.size(); ++d) {
      base += attrs.starts[d] * strides[d];
      strides[d] *= attrs.steps[d];
    }
  }
};

std::unique_ptr<Kernel> plan_slice(const NodeView& node, Scratch& scratch) {
  const Shape& shape = node.outputs[0].shape;
  const SliceLayout slice(node.inputs[0].shape, node.attr<SliceAttrs>());
  return plan_walk(Dims<2>(shape, {slice.strides, row_major(shape)}), slice.base, 0,
                   element_bytes(node.outputs[0]), 0, scratch);
}

/// Runs of axes that padding leaves alone are one axis.
void add_axis(std::vector<PadAxis>& axes, const PadAxis& axis, bool fill) {
  const auto untouched = [](const PadAxis& a) { return a.padded == a.kept && a.whole == a.kept; };
  if (!axes.empty() && untouched(axis) && (fill || untouched(axes.back()))) {
    PadAxis& last = axes.back();
    for (long long* n : {&last.padded, &last.before, &last.kept, &last.whole, &last.crop}) {
      *n *= axis.kept;
    }
    return;
  }
  axes.push_back(axis);
}

/// The axes of a padding, for kernels that read the whole tensor, or (`reverse`) the padded one.
std::vector<PadAxis> pad_axes(const PadAttrs& attrs, const Shape& whole, const Shape& padded,
                              bool reverse, bool fill) {
  std::vector<PadAxis> axes;
  for (size_t d = 0; d < whole.size(); ++d) {
    PadAxis axis{};
    axis.whole = whole[d];
    axis.padded = padded[d];
    axis.before = std::max<int64_t>(0, attrs.before[d]);
    axis.crop = std::max<int64_t>(0, -attrs.before[d]);
    axis.kept = std::max<int64_t>(0, whole[d] - axis.crop - std::max<int64_t>(0, -attrs.after[d]));
    if (fill && reverse) {  // what padding adds is cropped, and the other way round
      std::swap(axis.whole, axis.padded);
      std::swap(axis.before, axis.crop);
    }
    add_axis(axes, axis, fill);
  }
  int64_t stride = 1;
  for (size_t d = axes.size(); d-- > 0;) {
    axes[d].stride = stride;
    stride *= fill || !reverse ? axes[d].whole : axes[d].padded;
  }
  return axes;
}

void set_axes(PadArguments& args, const std::vector<PadAxis>& axes, bool fold) {
  args.rank = static_cast<int>(axes.size());
  args.count = 1;
  for (size_t d = 0; d < axes.size(); ++d) {
    const int64_t size = fold ? axes[d].whole : axes[d].padded;
    args.axes[d] = axes[d];
    args.axes[d].divisor = divisor(size);
    args.count *= size;
  }
}

std::unique_ptr<Kernel> launch_pad(const PadArguments& args, const gpu::Function* f) {
  return make_kernel([args, f](const KernelArgs& k) {
    if (args.count == 0) return;
    PadArguments a = args;
    a.in = k.in[0];
    a.out = k.out[0];
    k.stream->launch(f, blocks_for(a.count), kThreads, a);
  });
}

/// `fill`: the bytes of one element, repeated.
std::unique_ptr<Kernel> plan_window(std::vector<PadAxis> axes, Border border, uint64_t fill,
                                    int64_t element, Scratch& scratch) {
  int64_t unit = element;
  const bool untouched = !axes.empty() && axes.back().kept == axes.back().padded &&
                         axes.back().kept == axes.back().whole;
  if (!axes.empty() && (border == Border::kFill || untouched)) {
    PadAxis& last = axes.back();
    unit = unit_of({last.padded * element, last.before * element, last.kept * element,
                    last.whole * element, last.crop * element});
    const int64_t factor = unit / element;
    for (long long* n : {&last.padded, &last.before, &last.kept, &last.whole, &last.crop}) {
      *n /= factor;
    }
    for (size_t d = 0; d + 1 < axes.size(); ++d) axes[d].stride /= factor;
  }
  PadArguments args{};
  args.border = border;
  args.fill[0] = args.fill[1] = fill;
  set_axes(args, axes, false);
  return launch_pad(args, function_by_size(scratch, "pad", unit, is_far(args.count)));
}

Border border_of(PadMode mode) {
  switch (mode) {
    case PadMode::kReflect:
      return Border::kReflect;
    case PadMode::kEdge:
      return Border::kEdge;
    case PadMode::kWrap:
      return Border::kWrap;
    default:
      return Border::kFill;
  }
}

std::unique_ptr<Kernel> plan_pad(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<PadAttrs>();
  Tensor value(node.outputs[0].dtype, {});
  value.fill(attrs.value);
  uint64_t fill = 0;
  const size_t bytes = value.bytes();
  for (size_t at = 0; at < sizeof(fill); at += bytes) {
    std::memcpy(reinterpret_cast<char*>(&fill) + at, value.raw(), bytes);
  }
  const Border border = border_of(attrs.mode);
  return plan_window(
      pad_axes(attrs, node.inputs[0].shape, node.outputs[0].shape, false, border == Border::kFill),
      border, fill, static_cast<int64_t>(bytes), scratch);
}

Support takes_pad_grad(const NodeView& node) {
  if (node.attr<PadAttrs>().mode != PadMode::kConstant) return all_float(node);
  return takes_moves(node);
}

std::unique_ptr<Kernel> plan_pad_grad(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<PadAttrs>();
  const Border border = border_of(attrs.mode);
  const bool fill = border == Border::kFill;
  const std::vector<PadAxis> axes =
      pad_axes(attrs, node.outputs[0].shape, node.inputs[0].shape, true, fill);
  if (fill) return plan_window(axes, border, 0, element_bytes(node.outputs[0]), scratch);
  PadArguments args{};
  args.border = border;
  set_axes(args, axes, true);
  return launch_pad(
      args, function(scratch, is_far(args.count) ? "fold_far" : "fold", node.outputs[0].dtype));
}

/// A slice without gaps is what constant padding keeps.
std::unique_ptr<Kernel> plan_slice_grad(const NodeView& node, Scratch& scratch) {
  const Shape &shape = node.inputs[0].shape, &whole = node.outputs[0].shape;
  const auto& attrs = node.attr<SliceAttrs>();
  const int64_t element = element_bytes(node.outputs[0]);
  bool gaps = node.inputs[0].size() == 0;
  for (int64_t step : attrs.steps) gaps |= step != 1;
  if (gaps) {
    const SliceLayout slice(whole, attrs);
    return plan_walk(Dims<2>(shape, {row_major(shape), slice.strides}), 0, slice.base, element,
                     node.outputs[0].bytes(), scratch);
  }
  PadAttrs pads;
  for (size_t d = 0; d < whole.size(); ++d) {
    pads.before.push_back(attrs.starts[d]);
    pads.after.push_back(whole[d] - attrs.starts[d] - shape[d]);
  }
  return plan_window(pad_axes(pads, shape, whole, false, true), Border::kFill, 0, element, scratch);
}

/// Concat and Split: launches over up to kMaxParts neighbouring parts each.
std::unique_ptr<Kernel> plan_parts(const TensorType& whole, std::span<const TensorType> parts,
                                   int64_t axis, bool split, Scratch& scratch) {
  struct Launch {
    PartsArguments args;
    size_t begin;  // bytes in front of its parts in a row of the whole
    std::vector<size_t> operands;
    const gpu::Function* f;
  };
  const auto a = static_cast<size_t>(axis);
  const int64_t element = element_bytes(whole), outer = size_of(whole.shape, 0, a);
  const int64_t inner = size_of(whole.shape, a + 1, whole.shape.size());
  int64_t unit = unit_of({whole.shape[a] * inner * element});
  for (const TensorType& part : parts) unit = unit_of({unit, part.shape[a] * inner * element});
  std::vector<Launch> launches;
  int64_t begin = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const int64_t width = parts[p].shape[a] * inner * element / unit;
    if (outer * width == 0) continue;
    if (launches.empty() || launches.back().args.number == kMaxParts) {
      launches.push_back({{}, static_cast<size_t>(begin * unit), {}, nullptr});
      launches.back().args.row = whole.shape[a] * inner * element / unit;
    }
    Launch& last = launches.back();
    last.args.width += width;
    last.args.ends[last.args.number++] = last.args.width;
    last.operands.push_back(p);
    begin += width;
  }
  for (Launch& l : launches) {
    l.args.count = outer * l.args.width;
    l.args.by_width = divisor(l.args.width);
    l.f = function_by_size(scratch, split ? "split" : "concat", unit, is_far(l.args.count));
  }
  return make_kernel([launches, split](const KernelArgs& k) {
    for (const Launch& l : launches) {
      PartsArguments args = l.args;
      // One kernel text reads one side and writes the other.
      char* all = split ? const_cast<char*>(k.input<char>(0)) : k.output<char>(0);
      args.whole = all + l.begin;
      for (size_t i = 0; i < l.operands.size(); ++i) {
        const size_t p = l.operands[i];
        args.parts[i] = split ? k.out[p] : const_cast<void*>(k.in[p]);
      }
      k.stream->launch(l.f, blocks_for(args.count), kThreads, args);
    }
  });
}

std::unique_ptr<Kernel> plan_concat(const NodeView& node, Scratch& scratch) {
  return plan_parts(node.outputs[0], node.inputs, node.attr<AxisAttrs>().axis, false, scratch);
}

std::unique_ptr<Kernel> plan_split(const NodeView& node, Scratch& scratch) {
  return plan_parts(node.inputs[0], node.outputs, node.attr<SplitAttrs>().axis, true, scratch);
}

std::unique_ptr<Kernel> plan_trilu(const NodeView& node, Scratch& scratch) {
  const TriluAttrs& attrs = node.attr<TriluAttrs>();
  const TensorType& y = node.outputs[0];
  const int64_t rows = y.shape[y.shape.size() - 2], columns = y.shape.back();
  const TriluArguments args{nullptr, nullptr,       y.size(),         rows,       columns,
                            attrs.k, divisor(rows), divisor(columns), attrs.upper};
  const gpu::Function* f = function_by_size(scratch, "trilu", element_bytes(y), is_far(args.count));
  return make_kernel([=](const KernelArgs& k) {
    if (args.count == 0) return;
    TriluArguments a = args;
    a.in = k.in[0];
    a.out = k.out[0];
    k.stream->launch(f, blocks_for(a.count), kThreads, a);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kTranspose, "cuda.transpose", takes_moves, plan_transpose, false, false, true},
    {Op::kExpand, "cuda.copy", takes_moves, plan_expand, false, false, true},
    {Op::kSlice, "cuda.copy", takes_moves, plan_slice, false, false, true},
    {Op::kSliceGrad, "cuda.copy", takes_moves, plan_slice_grad, false, false, true},
    {Op::kConcat, "cuda.copy", takes_moves, plan_concat, false, false, true},
    {Op::kSplit, "cuda.copy", takes_moves, plan_split, false, false, true},
    {Op::kPad, "cuda.pad", takes_moves, plan_pad, false, false, true},
    {Op::kPadGrad, "cuda.pad", takes_pad_grad, plan_pad_grad, false, false, true},
    {Op::kTrilu, "cuda.trilu", takes_moves, plan_trilu, true, false, true},
};

}  // namespace

std::span<const KernelRow> movement_rows() { return kRows; }

}  // namespace trainrt::cuda
