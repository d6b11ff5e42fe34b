#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

struct GatherPlan {
  AxisView data;
  int64_t count;  // indices
  Indices indices;
  size_t block;  // bytes of one entry
};

void gather(const GatherPlan& p, const KernelArgs& args) {
  const void* ids = args.in[1];
  for (int64_t k = 0; k < p.count; ++k) {
    checked_index("Gather", p.indices.read(ids, k), p.data.size);
  }
  const int64_t tasks = p.data.outer * p.count;
#pragma omp parallel for schedule(static) if (tasks * p.data.inner > kParallel)
  for (int64_t t = 0; t < tasks; ++t) {
    const int64_t id = p.indices.read(ids, t % p.count);
    const int64_t row = t / p.count * p.data.size + (id < 0 ? id + p.data.size : id);
    copy_bytes(args.output<char>(0) + static_cast<size_t>(t) * p.block,
               args.input<char>(0) + static_cast<size_t>(row) * p.block, p.block);
  }
}

/// Each thread owns columns and adds the rows in order, so that the sums do not depend on timing.
template <typename T>
void gather_grad(const GatherPlan& p, const KernelArgs& args) {
  const void* ids = args.in[1];
  const AxisView& view = p.data;
  for (int64_t k = 0; k < p.count; ++k) {
    checked_index("GatherGrad", p.indices.read(ids, k), view.size);
  }
  T* dx = args.output<T>(0);
  zero_bytes(dx, static_cast<size_t>(view.count()) * sizeof(T));
  const int64_t pieces = div_up(view.inner, kBlock), tasks = view.outer * pieces;
#pragma omp parallel for schedule(static) if (view.outer * p.count * view.inner > kParallel)
  for (int64_t t = 0; t < tasks; ++t) {
    const int64_t o = t / pieces, begin = t % pieces * kBlock;
    const int64_t end = std::min(view.inner, begin + kBlock);
    for (int64_t k = 0; k < p.count; ++k) {
      const int64_t id = p.indices.read(ids, k);
      const T* dy = args.input<T>(0) + (o * p.count + k) * view.inner;
      T* row = dx + view.at(o, id < 0 ? id + view.size : id, 0);
      for (int64_t j = begin; j < end; ++j) row[j] = add(row[j], dy[j]);
    }
  }
}

std::unique_ptr<Kernel> plan_gather(const NodeView& node, Scratch&) {
  const AxisView view(node.inputs[0].shape, node.attr<AxisAttrs>().axis);
  return bind(GatherPlan{view, node.inputs[1].size(), Indices(node.inputs[1].dtype),
                         static_cast<size_t>(view.inner) * dtype_size(node.inputs[0].dtype)},
              gather);
}

std::unique_ptr<Kernel> plan_gather_grad(const NodeView& node, Scratch&) {
  const AxisView view(node.outputs[0].shape, node.attr<GatherGradAttrs>().axis);
  return bind_number(node.outputs[0].dtype,
                     GatherPlan{view, node.inputs[1].size(), Indices(node.inputs[1].dtype), 0},
                     []<typename T>() { return gather_grad<T>; });
}

/// GatherElements and ScatterElements: where entry i of the index tensor points to in the data.
struct ElementsPlan {
  StridedLoop loop;  // index tensor, data without the axis
  Indices indices;
  int64_t axis_size, axis_stride;
  size_t data_bytes = 0;
  Reduction reduction = Reduction::kNone;

  ElementsPlan(const Shape& data, const TensorType& index, int64_t axis)
      : loop(make_loop(data, index.shape, axis)),
        indices(index.dtype),
        axis_size(data[static_cast<size_t>(axis)]),
        axis_stride(row_major_strides(data)[static_cast<size_t>(axis)]) {}

  static StridedLoop make_loop(const Shape& data, const Shape& index, int64_t axis) {
    std::vector<int64_t> strides = row_major_strides(data);
    strides[static_cast<size_t>(axis)] = 0;
    return StridedLoop(index, {row_major_strides(index), strides});
  }

  /// Calls f(entry, data offset) in row-major order.
  template <typename F>
  void for_each(std::string_view op, const void* ids, F f) const {
    for (int64_t r = 0; r < loop.rows(); ++r) {
      const StridedLoop::Offsets at = loop.offsets(r, 0);
      for (int64_t i = 0; i < loop.width(); ++i) {
        const int64_t entry = at[0] + i * loop.step(0);
        const int64_t id = checked_index(op, indices.read(ids, entry), axis_size);
        f(entry, at[1] + i * loop.step(1) + id * axis_stride);
      }
    }
  }
};

template <typename T>
void gather_elements(const ElementsPlan& p, const KernelArgs& args) {
  const T* x = args.input<T>(0);
  T* y = args.output<T>(0);
  p.for_each("GatherElements", args.in[1],
             [&](int64_t entry, int64_t offset) { y[entry] = x[offset]; });
}

std::unique_ptr<Kernel> plan_gather_elements(const NodeView& node, Scratch&) {
  return bind_size(node.outputs[0].dtype,
                   ElementsPlan(node.inputs[0].shape, node.inputs[1], node.attr<AxisAttrs>().axis),
                   []<typename T>() { return gather_elements<T>; });
}

template <typename T>
T reduce(Reduction reduction, T old, T update) {
  switch (reduction) {
    case Reduction::kAdd:
      return add(old, update);
    case Reduction::kMul:
      return multiply(old, update);
    case Reduction::kMax:
      return maximum(old, update);
    case Reduction::kMin:
      return minimum(old, update);
    case Reduction::kNone:
      break;
  }
  return update;
}

template <typename T>
void scatter_elements(const ElementsPlan& p, const KernelArgs& args) {
  copy_bytes(args.out[0], args.in[0], p.data_bytes);
  const T* updates = args.input<T>(2);
  T* y = args.output<T>(0);
  p.for_each("ScatterElements", args.in[1], [&](int64_t entry, int64_t offset) {
    y[offset] = reduce(p.reduction, y[offset], updates[entry]);
  });
}

std::unique_ptr<Kernel> plan_scatter_elements(const NodeView& node, Scratch&) {
  const ScatterAttrs& attrs = node.attr<ScatterAttrs>();
  ElementsPlan plan(node.inputs[0].shape, node.inputs[1], attrs.axis);
  plan.data_bytes = node.inputs[0].bytes();
  plan.reduction = attrs.reduction;
  return bind_number(node.outputs[0].dtype, std::move(plan),
                     []<typename T>() { return scatter_elements<T>; });
}

/// GatherND and ScatterND: tuples of indices that name blocks of the data.
struct TuplesPlan {
  Indices indices;
  int64_t tuples = 1;          // index tuples per batch
  int64_t batches = 1;         // leading dims shared by data and indices
  int64_t block = 1;           // elements a tuple names
  int64_t batch_size = 1;      // elements of the data per batch
  std::vector<int64_t> sizes;  // of the indexed axes
  std::vector<int64_t> strides;
  size_t element;
  size_t data_bytes = 0;
  Reduction reduction = Reduction::kNone;

  TuplesPlan(const TensorType& data, const TensorType& index, int64_t batch_dims)
      : indices(index.dtype), element(dtype_size(data.dtype)), data_bytes(data.bytes()) {
    const auto b = static_cast<size_t>(batch_dims), q = static_cast<size_t>(index.shape.back());
    const std::vector<int64_t> all = row_major_strides(data.shape);
    batches = element_count(std::span(data.shape).first(b));
    tuples = element_count(std::span(index.shape).subspan(b, index.shape.size() - 1 - b));
    batch_size = element_count(std::span(data.shape).subspan(b));
    block = element_count(std::span(data.shape).subspan(b + q));
    sizes.assign(data.shape.begin() + static_cast<ptrdiff_t>(b),
                 data.shape.begin() + static_cast<ptrdiff_t>(b + q));
    strides.assign(all.begin() + static_cast<ptrdiff_t>(b),
                   all.begin() + static_cast<ptrdiff_t>(b + q));
  }

  /// Calls f(tuple number, data offset) in order.
  template <typename F>
  void for_each(std::string_view op, const void* ids, F f) const {
    const int64_t q = static_cast<int64_t>(sizes.size());
    for (int64_t t = 0; t < batches * tuples; ++t) {
      int64_t offset = t / tuples * batch_size;
      for (int64_t k = 0; k < q; ++k) {
        const auto d = static_cast<size_t>(k);
        offset += checked_index(op, indices.read(ids, t * q + k), sizes[d]) * strides[d];
      }
      f(t, offset);
    }
  }
};

void gather_nd(const TuplesPlan& p, const KernelArgs& args) {
  const size_t bytes = static_cast<size_t>(p.block) * p.element;
  p.for_each("GatherND", args.in[1], [&](int64_t tuple, int64_t offset) {
    copy_bytes(args.output<char>(0) + static_cast<size_t>(tuple) * bytes,
               args.input<char>(0) + static_cast<size_t>(offset) * p.element, bytes);
  });
}

template <typename T>
void scatter_nd(const TuplesPlan& p, const KernelArgs& args) {
  copy_bytes(args.out[0], args.in[0], p.data_bytes);
  p.for_each("ScatterND", args.in[1], [&](int64_t tuple, int64_t offset) {
    const T* update = args.input<T>(2) + tuple * p.block;
    T* y = args.output<T>(0) + offset;
    for (int64_t j = 0; j < p.block; ++j) y[j] = reduce(p.reduction, y[j], update[j]);
  });
}

std::unique_ptr<Kernel> plan_gather_nd(const NodeView& node, Scratch&) {
  return bind(TuplesPlan(node.inputs[0], node.inputs[1], node.attr<GatherNDAttrs>().batch_dims),
              gather_nd);
}

std::unique_ptr<Kernel> plan_scatter_nd(const NodeView& node, Scratch&) {
  TuplesPlan plan(node.inputs[0], node.inputs[1], 0);
  plan.reduction = node.attr<ScatterAttrs>().reduction;
  return bind_number(node.outputs[0].dtype, std::move(plan),
                     []<typename T>() { return scatter_nd<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kGather, "reference", nullptr, plan_gather},
    {Op::kGatherGrad, "reference", takes_numbers, plan_gather_grad},
    {Op::kGatherElements, "reference", nullptr, plan_gather_elements},
    {Op::kGatherND, "reference", nullptr, plan_gather_nd},
    {Op::kScatterElements, "reference", takes_numbers, plan_scatter_elements},
    {Op::kScatterND, "reference", takes_numbers, plan_scatter_nd},
};

}  // namespace

std::span<const KernelRow> reference_indexing_kernels() { return kRows; }

}  // namespace trainrt::reference
