// Interpolate and its gradient: weighted sums of rows along one axis.
#include <algorithm>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

namespace trainrt {
namespace {

/// Result cell c is the sum of weight[k] * source cell index[k], k in [start[c], start[c + 1]).
struct Terms {
  int64_t outer, inner, from, to;
  std::vector<int64_t> start, index;
  std::vector<float> weight;
};

Terms make_terms(const NodeView& node) {
  const auto& attr = node.attr<InterpolateAttrs>();
  const Shape& shape = node.inputs[0].shape;
  const size_t axis = static_cast<size_t>(attr.axis), taps = static_cast<size_t>(attr.taps);
  const bool grad = node.op == Op::kInterpolateGrad;
  Terms t{size_of(shape, 0, axis),
          size_of(shape, axis + 1, shape.size()),
          shape[axis],
          node.outputs[0].shape[axis],
          {},
          {},
          {}};
  std::vector<std::vector<size_t>> of(static_cast<size_t>(t.to));
  for (size_t k = 0; k < attr.weight.size(); ++k) {
    if (attr.weight[k] == 0) continue;
    of[grad ? static_cast<size_t>(attr.index[k]) : k / taps].push_back(k);
  }
  for (const auto& terms : of) {
    t.start.push_back(static_cast<int64_t>(t.index.size()));
    for (size_t k : terms) {
      t.index.push_back(grad ? static_cast<int64_t>(k / taps) : attr.index[k]);
      t.weight.push_back(static_cast<float>(attr.weight[k]));
    }
  }
  t.start.push_back(static_cast<int64_t>(t.index.size()));
  return t;
}

Support takes_interpolate(const NodeView& node) { return all_float(node); }

std::unique_ptr<Kernel> plan_interpolate(const NodeView& node, Scratch&) {
  return make_kernel([t = make_terms(node)](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float* x = args.input<float>(0);
    float* y = args.output<float>(0);
    parallel_items(t.outer * t.to, 2 * t.inner, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const size_t cell = static_cast<size_t>(i % t.to);
        const float* from = x + i / t.to * t.from * t.inner;
        float* out = y + i * t.inner;
        if (t.inner == 1) {
          float sum = 0;
          for (int64_t k = t.start[cell]; k < t.start[cell + 1]; ++k) {
            sum += t.weight[static_cast<size_t>(k)] * from[t.index[static_cast<size_t>(k)]];
          }
          *out = sum;
          continue;
        }
        int64_t k = t.start[cell];
        const auto row = [&] { return from + t.index[static_cast<size_t>(k)] * t.inner; };
        if (k == t.start[cell + 1]) {
          std::fill(out, out + t.inner, 0.0f);
          continue;
        }
        v.affine(row(), t.weight[static_cast<size_t>(k)], 0.0f, out, t.inner);
        for (++k; k < t.start[cell + 1]; ++k) {
          v.add_scaled(row(), t.weight[static_cast<size_t>(k)], out, t.inner);
        }
      }
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kInterpolate, "cpu.interpolate", takes_interpolate, plan_interpolate, false},
    {Op::kInterpolateGrad, "cpu.interpolate", takes_interpolate, plan_interpolate, false},
};

}  // namespace

std::span<const KernelRow> interpolate_rows() { return kRows; }

}  // namespace trainrt
