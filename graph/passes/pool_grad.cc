#include <algorithm>

#include "graph/passes/passes.h"

namespace trainrt {
namespace {

const Node& producer(Builder& b, ValueId v) { return b.graph().producer(v); }

/// The gradient of a max-pool is one value per window and zeros between them.
class PoolGrad final : public Pass {
 public:
  std::string_view name() const override { return "pool_grad"; }

  bool run(Graph& graph) override {
    const std::vector<int32_t> uses = use_counts(graph);
    return rewrite(graph, {}, [&](Builder& b, const Node& node, std::span<const Var> in) {
      Replacement result;
      Var v;
      if (node.op == Op::kReluGrad) {
        if (uses[static_cast<size_t>(node.inputs[0].index)] == 1) v = mask(b, in[0], in[1]);
      } else if (node.op == Op::kReduceSum) {
        v = sum(b, in[0], std::get<ReduceAttrs>(node.attrs));
      }
      if (v) result = {v};
      return result;
    });
  }

 private:
  /// The maxima of the windows, where the graph has them: they are values of y, the ones at the
  /// places that get a gradient.
  static Var maxima(Builder& b, Var y, const Attrs& windows) {
    for (const Node& node : b.graph().nodes()) {
      if (node.op == Op::kMaxPool && node.inputs[0] == y.id() && node.section <= b.section() &&
          equal(node.attrs, windows)) {
        return b.wrap(node.outputs[0]);
      }
    }
    return {};
  }

  /// Whether the value may be another one later.
  static bool is_state(Builder& b, ValueId v) {
    while (is_view(producer(b, v).op)) v = producer(b, v).inputs[0];
    const Op op = producer(b, v).op;
    return op == Op::kInput || is_state_update(op);
  }

  // ReluGrad(MaxPoolGrad(dp, y), y) = MaxPoolGrad(ReluGrad(dp, p), y) for p = MaxPool(y), to the
  // bit: p is y at the one place of its window that gets a gradient, so both let through the same
  // terms, and these are added in the same order. That holds for ties (all of them are equal), for
  // NaN (the largest value, and not above 0) and for padding (no place, no part in p).
  static Var mask(Builder& b, Var dx, Var y) {
    const Node pool = producer(b, dx.id());
    if (pool.op != Op::kMaxPoolGrad || pool.inputs[1] != y.id() || is_state(b, y.id())) return {};
    const Var dp = b.wrap(pool.inputs[0]);
    // Windows as many as pixels spare nothing, and p would have to be kept.
    if (dp.type().size() >= y.type().size()) return {};
    const Var p = maxima(b, y, pool.attrs);
    if (!p) return {};
    return b.add(Op::kMaxPoolGrad, {b.add(Op::kReluGrad, {dp, p}), y}, pool.attrs);
  }

  // ReduceSum(MaxPoolGrad(dp, x)) = ReduceSum(dp) over all pixels: each window holds a pixel of the
  // image (its shape rule sees to that) and puts its gradient there once.
  static Var sum(Builder& b, Var dx, const ReduceAttrs& attrs) {
    Var v = dx;
    while (true) {
      const Node& pool = producer(b, v.id());
      if (pool.op != Op::kMaxPoolGrad) break;
      for (int64_t axis = 2; axis < v.rank(); ++axis) {
        if (!std::binary_search(attrs.axes.begin(), attrs.axes.end(), axis)) return {};
      }
      v = b.wrap(pool.inputs[0]);
    }
    return v.id() == dx.id() ? Var() : b.add(Op::kReduceSum, {v}, attrs);
  }
};

}  // namespace

std::unique_ptr<Pass> make_pool_grad_pass() { return std::make_unique<PoolGrad>(); }

}  // namespace trainrt
