// Gather by whole rows, and its gradient, in which every thread owns columns and adds rows in the
// order of the indices.
#include <algorithm>

#include "kernels/cpu/copy.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vector_ops.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr int64_t kColumns = 64;

struct GatherShape {
  int64_t outer, size, inner, count;
  bool wide;  // int64 indices, else int32

  GatherShape(const Shape& data, int64_t axis, const TensorType& indices)
      : outer(size_of(data, 0, static_cast<size_t>(axis))),
        size(data[static_cast<size_t>(axis)]),
        inner(size_of(data, static_cast<size_t>(axis) + 1, data.size())),
        count(indices.size()),
        wide(indices.dtype == DType::kInt64) {}

  int64_t read(const void* ids, int64_t i) const {
    const int64_t id =
        wide ? static_cast<const int64_t*>(ids)[i] : static_cast<const int32_t*>(ids)[i];
    return id < 0 ? id + size : id;
  }

  void check(std::string_view op, const void* ids) const {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t id = read(ids, i);
      if (id >= 0 && id < size) continue;
      throw Error(ErrorCode::kRuntime,
                  std::string(op) + ": index " + std::to_string(id < 0 ? id - size : id) +
                      " at position " + std::to_string(i) + " is outside of [" +
                      std::to_string(-size) + ", " + std::to_string(size) + ")");
    }
  }
};

bool takes_indices(const TensorType& t) {
  return t.dtype == DType::kInt64 || t.dtype == DType::kInt32;
}

Support takes_gather(const NodeView& node) {
  return takes_indices(node.inputs[1]) ? Support::yes()
                                       : Support::no("takes int32 and int64 indices");
}

std::unique_ptr<Kernel> plan_gather(const NodeView& node, Scratch&) {
  const GatherShape s(node.inputs[0].shape, node.attr<AxisAttrs>().axis, node.inputs[1]);
  const size_t run = static_cast<size_t>(s.inner) * dtype_size(node.outputs[0].dtype);
  return make_kernel([=](const KernelArgs& args) {
    s.check("Gather", args.in[1]);
    parallel_items(s.outer * s.count, s.inner, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / s.count * s.size + s.read(args.in[1], i % s.count);
        copy_run(args.output<char>(0) + static_cast<size_t>(i) * run,
                 args.input<char>(0) + static_cast<size_t>(row) * run, run);
      }
    });
  });
}

Support takes_gather_grad(const NodeView& node) {
  if (node.inputs[0].dtype != DType::kFloat32) return Support::no("takes float32");
  return takes_gather(node);
}

std::unique_ptr<Kernel> plan_gather_grad(const NodeView& node, Scratch&) {
  const GatherShape s(node.outputs[0].shape, node.attr<GatherGradAttrs>().axis, node.inputs[1]);
  const size_t bytes = node.outputs[0].bytes();
  return make_kernel([=](const KernelArgs& args) {
    s.check("GatherGrad", args.in[1]);
    const VectorOps& v = vector_ops();
    const float* dy = args.input<float>(0);
    float* dx = args.output<float>(0);
    parallel_zero(dx, bytes);
    const int64_t pieces = (s.inner + kColumns - 1) / kColumns;
    const int64_t width = std::min(s.inner, kColumns);
    parallel_items(s.outer * pieces, s.count * width, [&](int64_t begin, int64_t end) {
      // A thread's neighbouring pieces of one outer index are one wider piece.
      for (int64_t i = begin; i < end;) {
        const int64_t o = i / pieces, first = i % pieces, last = std::min(pieces, first + end - i);
        const int64_t at = first * kColumns, n = std::min(last * kColumns, s.inner) - at;
        for (int64_t k = 0; k < s.count; ++k) {
          float* row = dx + (o * s.size + s.read(args.in[1], k)) * s.inner + at;
          const float* from = dy + (o * s.count + k) * s.inner + at;
          if (n == 1)
            *row += *from;
          else
            v.add(row, from, row, n);
        }
        i += last - first;
      }
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kGather, "cpu.gather", takes_gather, plan_gather, false},
    {Op::kGatherGrad, "cpu.gather", takes_gather_grad, plan_gather_grad, false},
};

}  // namespace

std::span<const KernelRow> gather_rows() { return kRows; }

}  // namespace trainrt
