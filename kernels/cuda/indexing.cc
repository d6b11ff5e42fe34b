// Gather, Scatter and their like. Scatters join in the order of the indices, whatever the threads
// do: by the last index of each destination, or by indices sorted by destination.
#include "kernels/cuda/device/indexing.h"

#include <bit>

#include "kernels/cuda/sort.h"
#include "kernels/cuda/strided.h"

namespace trainrt::cuda {
namespace {

int64_t element_bytes(const TensorType& type) {
  return static_cast<int64_t>(dtype_size(type.dtype));
}

IndexOperand index_operand(const TensorType& type) {
  return {nullptr, nullptr, 0, type.dtype == DType::kInt64};
}

void set_indices(IndexOperand& indices, const KernelArgs& k) {
  indices.ids = k.in[1];
  indices.status = k.status;
  indices.step = k.step;
}

/// The data and the result kept as bfloat16, or neither.
Support takes_gather(const NodeView& node) {
  const bool half = node.outputs[0].dtype == DType::kBFloat16;
  return half == (node.inputs[0].dtype == DType::kBFloat16)
             ? Support::yes()
             : Support::no("takes all or no bfloat16");
}

std::unique_ptr<Kernel> plan_gather(const NodeView& node, Scratch& scratch) {
  const Shape& shape = node.inputs[0].shape;
  const auto axis = static_cast<size_t>(node.attr<AxisAttrs>().axis);
  const int64_t element = element_bytes(node.outputs[0]);
  const int64_t inner = size_of(shape, axis + 1, shape.size());
  const int64_t unit = unit_of({inner * element});
  GatherArguments args{};
  args.row = inner * element / unit;
  args.n = node.inputs[1].size();
  args.size = shape[axis];
  args.count = size_of(shape, 0, axis) * args.n * args.row;
  args.by_row = divisor(args.row);
  args.by_n = divisor(args.n);
  args.indices = index_operand(node.inputs[1]);
  const gpu::Function* f = function_by_size(scratch, "gather", unit, is_far(args.count));
  return make_kernel([=](const KernelArgs& k) {
    if (args.count == 0) return;
    GatherArguments a = args;
    a.in = k.in[0];
    a.out = k.out[0];
    set_indices(a.indices, k);
    k.stream->launch(f, blocks_for(a.count), kThreads, a);
  });
}

/// GatherElements and ScatterElements: each index names one element of the data.
IndexTuples element_tuples(const Shape& data, const TensorType& index, int64_t axis) {
  const auto a = static_cast<size_t>(axis);
  IndexTuples tuples{};
  Strides strides = row_major(data);
  tuples.indices = index_operand(index);
  tuples.depth = 1;
  tuples.sizes[0] = data[a];
  tuples.strides[0] = strides[a];
  strides[a] = 0;
  tuples.walk = Dims<1>(index.shape, {strides}).walk();
  return tuples;
}

/// GatherND and ScatterND: tuples that name blocks of the data.
struct Blocks {
  IndexTuples tuples{};
  int64_t count = 1;  // of tuples
  int64_t block = 1;  // elements

  Blocks(const Shape& data, const TensorType& index, int64_t batch_dims) {
    const auto b = static_cast<size_t>(batch_dims), q = static_cast<size_t>(index.shape.back());
    const Strides strides = row_major(data);
    block = size_of(data, b + q, data.size());
    count = size_of(index.shape, 0, index.shape.size() - 1);
    const Shape tuple_shape = {size_of(data, 0, b),
                               size_of(index.shape, b, index.shape.size() - 1)};
    tuples.walk = Dims<1>(tuple_shape, {Strides{size_of(data, b, data.size()), 0}}).walk();
    tuples.indices = index_operand(index);
    tuples.depth = static_cast<int>(q);
    for (size_t d = 0; d < q; ++d) {
      tuples.sizes[d] = data[b + d];
      tuples.strides[d] = strides[b + d];
    }
  }

  /// Counts the data in units of `elements`, of which a block is a multiple.
  void count_in(int64_t elements) {
    for (int d = 0; d < tuples.depth; ++d) tuples.strides[d] /= elements;
    for (int d = 0; d < tuples.walk.rank; ++d) tuples.walk.strides[0][d] /= elements;
  }
};

std::unique_ptr<Kernel> plan_gather_tuples(const IndexTuples& tuples, int64_t count, int64_t row,
                                           int64_t unit, Scratch& scratch) {
  const GatherTuplesArguments args{nullptr, nullptr, count * row, row, divisor(row), tuples};
  const gpu::Function* f = function_by_size(scratch, "gather_tuples", unit, is_far(args.count));
  return make_kernel([=](const KernelArgs& k) {
    if (args.count == 0) return;
    GatherTuplesArguments a = args;
    a.in = k.in[0];
    a.out = k.out[0];
    set_indices(a.tuples.indices, k);
    k.stream->launch(f, blocks_for(a.count), kThreads, a);
  });
}

std::unique_ptr<Kernel> plan_gather_elements(const NodeView& node, Scratch& scratch) {
  return plan_gather_tuples(
      element_tuples(node.inputs[0].shape, node.inputs[1], node.attr<AxisAttrs>().axis),
      node.outputs[0].size(), 1, element_bytes(node.outputs[0]), scratch);
}

std::unique_ptr<Kernel> plan_gather_nd(const NodeView& node, Scratch& scratch) {
  const int64_t element = element_bytes(node.outputs[0]);
  Blocks blocks(node.inputs[0].shape, node.inputs[1], node.attr<GatherNDAttrs>().batch_dims);
  const int64_t unit = unit_of({blocks.block * element});
  blocks.count_in(unit / element);
  return plan_gather_tuples(blocks.tuples, blocks.count, blocks.block * element / unit, unit,
                            scratch);
}

/// Rows [outer, n, row] that go to destinations in [outer, size, row].
struct Scatter {
  IndexTuples tuples;  // in destinations
  int64_t outer, n, row, size;
  Join join;
};

/// Keys are 32 bits, and so are the numbers of tuples.
Support fits(int64_t n, int64_t size) {
  return is_far(n) || is_far(size + 1) ? Support::no("takes up to 2^31 indices and destinations")
                                       : Support::yes();
}

KeysArguments keys_arguments(const Scatter& s) {
  return {nullptr, nullptr, s.n, static_cast<unsigned>(s.size), s.tuples};
}

/// The last tuple of each destination wins.
std::unique_ptr<Kernel> plan_last(const Scatter& s, int64_t element, size_t data_bytes,
                                  Scratch& scratch) {
  const KeysArguments keys = keys_arguments(s);
  const int64_t unit = unit_of({s.row * element}), row = s.row * element / unit;
  const ScatterLastArguments last{nullptr,   nullptr, nullptr,      nullptr,
                                  s.n * row, row,     divisor(row), keys.none};
  const size_t key_at = book(scratch, static_cast<size_t>(s.n) * sizeof(unsigned));
  const size_t last_bytes = static_cast<size_t>(s.size) * sizeof(int);
  const size_t last_at = book(scratch, last_bytes);
  const gpu::Function* find = function(scratch, "scatter_keys");
  const gpu::Function* move = function_by_size(scratch, "scatter_last", unit, is_far(last.count));
  return make_kernel([=](const KernelArgs& k) {
    if (data_bytes > 0) k.stream->copy_on_device(k.out[0], k.in[0], data_bytes);
    if (last.count == 0) return;
    k.stream->zero(scratch_at<void>(k, last_at), last_bytes);
    KeysArguments a = keys;
    a.keys = scratch_at<unsigned>(k, key_at);
    a.last = scratch_at<int>(k, last_at);
    set_indices(a.tuples.indices, k);
    k.stream->launch(find, blocks_for(a.count), kThreads, a);
    ScatterLastArguments b = last;
    b.in = k.in[2];
    b.out = k.out[0];
    b.keys = a.keys;
    b.last = a.last;
    k.stream->launch(move, blocks_for(b.count), kThreads, b);
  });
}

/// Joins sorted tuples. `source`: the operand of rows; 0: the destinations start from zero, not
/// from operand 0.
std::unique_ptr<Kernel> plan_runs(const Scatter& s, size_t source, DType in, DType out,
                                  size_t out_bytes, Scratch& scratch) {
  const KeysArguments keys = keys_arguments(s);
  ScatterRunsArguments runs{};
  runs.n = s.n;
  runs.outer = s.outer;
  runs.row = s.row;
  runs.size = s.size;
  runs.runs = (s.n + kRun - 1) / kRun;
  runs.none = keys.none;
  runs.join = s.join;
  runs.from_zero = source == 0;
  const int64_t count = runs.outer * runs.runs * runs.row;
  const RowSort sort(1, s.n, DType::kUInt32, std::bit_width(keys.none | 1), scratch);
  const size_t bytes = static_cast<size_t>(count) * dtype_size(out);
  const size_t heads = book(scratch, bytes), tails = book(scratch, bytes);
  const gpu::Function* find = function(scratch, "scatter_keys");
  const gpu::Function* run = function(scratch, "scatter_runs", in);
  const gpu::Function* end = function(scratch, "scatter_ends", out);
  return make_kernel([=](const KernelArgs& k) {
    if (out_bytes > 0 && source == 0) k.stream->zero(k.out[0], out_bytes);
    if (out_bytes > 0 && source != 0) k.stream->copy_on_device(k.out[0], k.in[0], out_bytes);
    if (count == 0) return;
    KeysArguments a = keys;
    a.keys = static_cast<unsigned*>(sort.keys(k));
    set_indices(a.tuples.indices, k);
    k.stream->launch(find, blocks_for(a.count), kThreads, a);
    sort.run(k);
    ScatterRunsArguments b = runs;
    b.in = k.in[source];
    b.out = k.out[0];
    b.heads = scratch_at<void>(k, heads);
    b.tails = scratch_at<void>(k, tails);
    b.keys = static_cast<const unsigned*>(sort.sorted(k));
    b.order = sort.order(k);
    k.stream->launch(run, blocks_for(count), kThreads, b);
    if (b.runs > 1) k.stream->launch(end, blocks_for(count), kThreads, b);
  });
}

Join join_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kAdd:
      return Join::kAdd;
    case Reduction::kMul:
      return Join::kMul;
    case Reduction::kMax:
      return Join::kMax;
    case Reduction::kMin:
      return Join::kMin;
    default:
      return Join::kLast;
  }
}

DType unsigned_of(int64_t bytes) {
  return bytes == 1   ? DType::kUInt8
         : bytes == 2 ? DType::kUInt16
         : bytes == 4 ? DType::kUInt32
                      : DType::kUInt64;
}

std::unique_ptr<Kernel> plan_scatter(const NodeView& node, const Scatter& s, Scratch& scratch) {
  const TensorType& data = node.outputs[0];
  const int64_t element = element_bytes(data);
  if (s.join != Join::kLast) {
    return plan_runs(s, 2, data.dtype, data.dtype, data.bytes(), scratch);
  }
  // Few indices into many destinations are better sorted than looked up.
  constexpr int64_t kSparse = 16;
  if (s.size <= kSparse * std::max<int64_t>(s.n, kSortSlots)) {
    return plan_last(s, element, data.bytes(), scratch);
  }
  const DType type = unsigned_of(element);
  return plan_runs(s, 2, type, type, data.bytes(), scratch);
}

Support takes_scatter_elements(const NodeView& node) {
  return fits(node.inputs[1].size(), node.inputs[0].size());
}

std::unique_ptr<Kernel> plan_scatter_elements(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<ScatterAttrs>();
  const TensorType &data = node.inputs[0], &index = node.inputs[1];
  return plan_scatter(node,
                      {element_tuples(data.shape, index, attrs.axis), 1, index.size(), 1,
                       data.size(), join_of(attrs.reduction)},
                      scratch);
}

Support takes_scatter_nd(const NodeView& node) {
  const Blocks blocks(node.inputs[0].shape, node.inputs[1], 0);
  return fits(blocks.count, node.inputs[0].size() / std::max<int64_t>(1, blocks.block));
}

std::unique_ptr<Kernel> plan_scatter_nd(const NodeView& node, Scratch& scratch) {
  const TensorType& data = node.inputs[0];
  Blocks blocks(data.shape, node.inputs[1], 0);
  const int64_t block = std::max<int64_t>(1, blocks.block);
  blocks.count_in(block);
  return plan_scatter(node,
                      {blocks.tuples, 1, blocks.count, blocks.block, data.size() / block,
                       join_of(node.attr<ScatterAttrs>().reduction)},
                      scratch);
}

Support takes_gather_grad(const NodeView& node) {
  const DType dy = node.inputs[0].dtype, dx = node.outputs[0].dtype;
  if (dx == DType::kBFloat16) return Support::no("gives float32");
  if (dy != DType::kBFloat16 && dy != dx) return Support::no("takes one type");
  const auto axis = static_cast<size_t>(node.attr<GatherGradAttrs>().axis);
  return fits(node.inputs[1].size(), node.outputs[0].shape[axis]);
}

std::unique_ptr<Kernel> plan_gather_grad(const NodeView& node, Scratch& scratch) {
  const TensorType &index = node.inputs[1], &dx = node.outputs[0];
  const auto axis = static_cast<size_t>(node.attr<GatherGradAttrs>().axis);
  IndexTuples tuples{};
  tuples.indices = index_operand(index);
  tuples.depth = 1;
  tuples.sizes[0] = dx.shape[axis];
  tuples.strides[0] = 1;
  return plan_runs({tuples, size_of(dx.shape, 0, axis), index.size(),
                    size_of(dx.shape, axis + 1, dx.shape.size()), dx.shape[axis], Join::kAdd},
                   0, node.inputs[0].dtype, dx.dtype, dx.bytes(), scratch);
}

constexpr KernelRow kRows[] = {
    {Op::kGather, "cuda.gather", takes_gather, plan_gather, false, false, true},
    {Op::kGatherGrad, "cuda.gather", takes_gather_grad, plan_gather_grad, false, false, true},
    {Op::kGatherElements, "cuda.gather", takes_gather, plan_gather_elements, false, false, true},
    {Op::kGatherND, "cuda.gather", takes_gather, plan_gather_nd, false, false, true},
    {Op::kScatterElements, "cuda.scatter", takes_scatter_elements, plan_scatter_elements},
    {Op::kScatterND, "cuda.scatter", takes_scatter_nd, plan_scatter_nd},
};

}  // namespace

std::span<const KernelRow> indexing_rows() { return kRows; }

}  // namespace trainrt::cuda
