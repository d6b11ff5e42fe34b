#include "graph/passes/passes.h"

namespace trainrt {
namespace {

class DeadCode final : public Pass {
 public:
  std::string_view name() const override { return "dead_code"; }

  bool run(Graph& graph) override {
    std::vector<bool> live(static_cast<size_t>(graph.node_count()));
    for (const Output& output : graph.outputs()) {
      live[static_cast<size_t>(graph.value(output.value).producer.index)] = true;
    }
    bool all = true;
    for (int32_t i = graph.node_count() - 1; i >= 0; --i) {
      const Node& node = graph.node(NodeId{i});
      if (node.op == Op::kInput || is_state_update(node.op)) live[static_cast<size_t>(i)] = true;
      if (!live[static_cast<size_t>(i)]) {
        all = false;
        continue;
      }
      for (ValueId v : node.inputs) {
        live[static_cast<size_t>(graph.value(v).producer.index)] = true;
      }
    }
    if (all) return false;
    sweep(graph, live);
    return true;
  }

 private:
  static void sweep(Graph& graph, const std::vector<bool>& live) {
    Graph fresh;
    for (const SourceRef& source : graph.sources()) fresh.add_source(source);
    std::vector<ValueId> mapped(static_cast<size_t>(graph.value_count()));
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      if (!live[static_cast<size_t>(i)]) continue;
      Node& node = graph.node(NodeId{i});
      std::vector<ValueId> inputs;
      std::vector<TensorType> types;
      for (ValueId v : node.inputs) inputs.push_back(mapped[static_cast<size_t>(v.index)]);
      for (ValueId v : node.outputs) types.push_back(graph.type(v));
      const NodeId id = fresh.add_node(node.op, std::move(inputs), std::move(node.attrs),
                                       std::move(types), node.section, node.source);
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        const ValueId to = fresh.node(id).outputs[k];
        fresh.value(to).name = graph.value(node.outputs[k]).name;
        mapped[static_cast<size_t>(node.outputs[k].index)] = to;
      }
    }
    for (const Output& output : graph.outputs()) {
      fresh.add_output(output.name, mapped[static_cast<size_t>(output.value.index)], output.role);
    }
    graph = std::move(fresh);
  }
};

}  // namespace

std::unique_ptr<Pass> make_dead_code_pass() { return std::make_unique<DeadCode>(); }

}  // namespace trainrt
