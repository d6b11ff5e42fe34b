#include <unordered_map>

#include "graph/passes/passes.h"

namespace trainrt {
namespace {

size_t hash_node(const Node& node, std::span<const Var> inputs) {
  size_t h = static_cast<size_t>(node.op) * 0x9E3779B97F4A7C15u;
  for (Var v : inputs) h = (h ^ static_cast<size_t>(v.id().index + 1)) * 0x100000001B3u;
  return h ^ hash(node.attrs);
}

// Random nodes may merge: what they draw depends on their stream and key alone.
class Cse final : public Pass {
 public:
  std::string_view name() const override { return "cse"; }

  bool run(Graph& graph) override {
    // Nodes of the new graph. rewrite() appends one node, number `next`, when the rule returns
    // nothing, and none otherwise.
    std::unordered_multimap<size_t, int32_t> seen;
    int32_t next = 0;
    return rewrite(graph, {}, [&](Builder& b, const Node& node, std::span<const Var> inputs) {
      Replacement result;
      if (node.op != Op::kInput && !has_effects(node.op)) {
        const size_t key = hash_node(node, inputs);
        const auto [begin, end] = seen.equal_range(key);
        for (auto it = begin; it != end && !result; ++it) {
          const Node& other = b.graph().node(NodeId{it->second});
          if (!same(node, inputs, other)) continue;
          result.emplace();
          for (ValueId v : other.outputs) result->push_back(b.wrap(v));
        }
        if (!result) seen.emplace(key, next);
      }
      if (!result) ++next;
      return result;
    });
  }

 private:
  static bool same(const Node& node, std::span<const Var> inputs, const Node& other) {
    if (node.op != other.op || other.section > node.section ||
        inputs.size() != other.inputs.size()) {
      return false;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].id() != other.inputs[i]) return false;
    }
    return equal(node.attrs, other.attrs);
  }
};

}  // namespace

std::unique_ptr<Pass> make_cse_pass() { return std::make_unique<Cse>(); }

}  // namespace trainrt
