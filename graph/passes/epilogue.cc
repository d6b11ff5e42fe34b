#include <algorithm>
#include <optional>

#include "graph/passes/passes.h"

namespace trainrt {
namespace {

/// What runs inside the kernel that computes a product or a convolution: the bias and the ReLU.
class Epilogue final : public Pass {
 public:
  std::string_view name() const override { return "epilogue"; }

  bool run(Graph& graph) override {
    const std::vector<int32_t> uses = use_counts(graph);
    // Values of the old graph that are seen only by what absorbs them, marked in the new one.
    std::vector<bool> single;
    const auto is_single = [&](Var v) {
      const auto i = static_cast<size_t>(v.id().index);
      return i < single.size() && single[i];
    };
    return rewrite(graph, {}, [&](Builder& b, const Node& node, std::span<const Var> in) {
      const Graph& fresh = b.graph();
      // Inputs of this node that nobody else reads.
      for (size_t i = 0; i < in.size(); ++i) {
        const auto at = static_cast<size_t>(in[i].id().index);
        if (single.size() <= at) single.resize(static_cast<size_t>(fresh.value_count()));
        single[at] = uses[static_cast<size_t>(node.inputs[i].index)] == 1;
      }
      Replacement result;
      Var v;
      if (node.op == Op::kAdd) {
        v = add_bias(b, in[0], in[1], is_single);
        if (!v) v = add_bias(b, in[1], in[0], is_single);
        if (v && v.type() != graph.type(node.outputs[0])) v = Var();
      } else if (node.op == Op::kRelu) {
        v = add_relu(b, in[0], is_single);
      }
      if (v) result = {v};
      return result;
    });
  }

 private:
  static Node producer(Var v) { return v.builder().graph().producer(v.id()); }

  // The vector along the last axis that `v` repeats, or absent.
  static Var as_bias(Var v, int64_t columns) {
    if (v.type().size() != columns || v.rank() == 0 || v.shape().back() != columns) return {};
    if (v.rank() == 1) return v;
    return reshape(v, {columns});
  }

  template <typename Single>
  Var add_bias(Builder& b, Var product, Var bias, const Single& is_single) const {
    if (!is_single(product)) return {};
    const Node node = producer(product);
    if (node.section != b.section()) return {};
    if (node.op == Op::kReshape) {
      const Var inner = b.wrap(node.inputs[0]);
      const bool keeps_rows =
          inner.rank() > 0 && product.rank() > 0 && inner.shape().back() == product.shape().back();
      if (!keeps_rows || !is_single(inner)) return {};
      const Var sum = add_bias(b, inner, bias, is_single);
      return sum ? reshape(sum, product.shape()) : Var();
    }
    if (node.op != Op::kMatMul || node.inputs.size() != 2) return {};
    MatMulAttrs attrs = std::get<MatMulAttrs>(node.attrs);
    if (attrs.relu) return {};
    const Var vector = as_bias(bias, product.shape().back());
    if (!vector) return {};
    return b.add(Op::kMatMul, {b.wrap(node.inputs[0]), b.wrap(node.inputs[1]), vector}, attrs);
  }

  template <typename Single>
  Var add_relu(Builder& b, Var x, const Single& is_single) const {
    if (!is_single(x)) return {};
    Node node = producer(x);
    if (node.section != b.section()) return {};
    if (node.op == Op::kReshape) {
      const Var inner = b.wrap(node.inputs[0]);
      const Var y = add_relu(b, inner, is_single);
      return y ? reshape(y, x.shape()) : Var();
    }
    if (node.op == Op::kMatMul) {
      std::get<MatMulAttrs>(node.attrs).relu = true;
    } else if (node.op == Op::kConv) {
      std::get<ConvAttrs>(node.attrs).relu = true;
    } else {
      return {};
    }
    std::vector<Var> in;
    for (ValueId v : node.inputs) in.push_back(b.wrap(v));
    return b.add_all(node.op, in, node.attrs)[0];
  }
};

}  // namespace

std::unique_ptr<Pass> make_epilogue_pass() { return std::make_unique<Epilogue>(); }

}  // namespace trainrt
