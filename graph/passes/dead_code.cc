#include "graph/graph_copy.h"
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
      if (node.op == Op::kInput || has_effects(node.op)) live[static_cast<size_t>(i)] = true;
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
    GraphCopy copy(graph);
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      if (live[static_cast<size_t>(i)]) copy.keep(graph.node(NodeId{i}));
    }
    graph = copy.finish();
  }
};

}  // namespace

std::unique_ptr<Pass> make_dead_code_pass() { return std::make_unique<DeadCode>(); }

}  // namespace trainrt
