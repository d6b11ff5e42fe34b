#include "frontend/module_calls.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_set>

#include "frontend/scope.h"

namespace trainrt {
namespace {

using Nodes = std::vector<const ImportedNode*>;

/// Calls visit(value) for all values that a node reads, those that its subgraphs capture included.
template <typename Visit>
void for_each_read(const ImportedNode& node, const Visit& visit) {
  for (int32_t v : node.inputs) {
    if (v >= 0) visit(v);
  }
  for (const ImportedAttr& attr : node.attrs) {
    if (!attr.graph) continue;
    for (const ImportedNode& inner : attr.graph->nodes) for_each_read(inner, visit);
    for (int32_t v : attr.graph->outputs) {
      if (v >= 0) visit(v);
    }
  }
}

class CallFinder {
 public:
  CallFinder(const ImportedModel& model, const ImportedGraph& graph,
             const std::vector<std::string>& modules)
      : model_(model), modules_(modules) {
    std::sort(modules_.begin(), modules_.end(),
              [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
    for (const ImportedNode& node : graph.nodes) {
      if (!node.needed) continue;
      all_.push_back(&node);
      for_each_read(node, [&](int32_t v) { readers_[v].push_back(&node); });
    }
    graph_outputs_.insert(graph.outputs.begin(), graph.outputs.end());
  }

  std::vector<CallStep> run() {
    emit(all_, 0);
    return std::move(steps_);
  }

 private:
  /// The outermost module that holds the node, from number `from` on; modules_.size(): none.
  size_t module_of(const ImportedNode& node, size_t from) const {
    while (from < modules_.size() && !is_inside(node.module, modules_[from])) ++from;
    return from;
  }

  bool reads_any(const ImportedNode& node, const std::unordered_set<int32_t>& values) const {
    bool found = false;
    for_each_read(node, [&](int32_t v) { found = found || values.contains(v); });
    return found;
  }

  std::vector<int32_t> weights_of(const ImportedNode& node) const {
    std::vector<int32_t> weights;
    for (int32_t v : node.inputs) {
      const int32_t w = v < 0 ? -1 : model_.values[static_cast<size_t>(v)].weight;
      if (w >= 0 && model_.weights[static_cast<size_t>(w)].use == WeightUse::kParameter) {
        weights.push_back(w);
      }
    }
    return weights;
  }

  /// What tells a node that reads parameters from the others of its module.
  using Reader = std::tuple<std::string, std::string, std::vector<int32_t>>;
  Reader reader_of(const ImportedNode& node) const {
    return {node.op, node.module, weights_of(node)};
  }

  std::set<Reader> readers_in(const std::string& module) const {
    std::set<Reader> result;
    for (const ImportedNode* node : all_) {
      if (!is_inside(node->module, module)) continue;
      Reader reader = reader_of(*node);
      if (!std::get<2>(reader).empty()) result.insert(std::move(reader));
    }
    return result;
  }

  void emit(Nodes nodes, size_t from) {
    for (size_t i = 0; i < nodes.size();) {
      const size_t number = module_of(*nodes[i], from);
      if (number == modules_.size()) {
        steps_.push_back({CallStep::Kind::kNode, nodes[i++], {}, {}});
        continue;
      }
      nodes = emit_call(nodes, i, from, number);
      i = 0;
    }
  }

  /// Emits the call that begins at nodes[begin]; what is left behind it.
  Nodes emit_call(const Nodes& nodes, size_t begin, size_t from, size_t number) {
    const std::string& module = modules_[number];
    size_t end = nodes.size();
    while (end > begin && !is_inside(nodes[end - 1]->module, module)) --end;
    Nodes members, before, rest;
    std::unordered_set<int32_t> inside, behind;  // values made by members, and by what is left
    const std::set<Reader> readers = readers_in(module);
    std::set<Reader> seen_readers;
    bool open = true;
    for (size_t i = begin; i < end; ++i) {
      const ImportedNode& node = *nodes[i];
      const bool member = open && is_inside(node.module, module);
      if (member) {
        const Reader reader = reader_of(node);
        // The model itself is called once.
        const bool again =
            !module.empty() &&
            ((node.module == module && !members.empty() && members[0]->module == module &&
              node.scope != members[0]->scope) ||
             (seen_readers.size() == readers.size() && seen_readers.contains(reader)));
        if (again || reads_any(node, behind)) {
          open = false;
        } else {
          if (readers.contains(reader)) seen_readers.insert(reader);
          members.push_back(&node);
          inside.insert(node.outputs.begin(), node.outputs.end());
          continue;
        }
      }
      if (open && !reads_any(node, inside) && !reads_any(node, behind)) {
        before.push_back(&node);
        continue;
      }
      rest.push_back(&node);
      behind.insert(node.outputs.begin(), node.outputs.end());
    }
    rest.insert(rest.end(), nodes.begin() + static_cast<std::ptrdiff_t>(end), nodes.end());

    emit(before, from);
    CallStep enter{CallStep::Kind::kEnter, nullptr, module, {}};
    CallStep leave{CallStep::Kind::kLeave, nullptr, module, {}};
    std::set<int32_t> seen;
    const std::set<const ImportedNode*> own(members.begin(), members.end());
    for (const ImportedNode* node : members) {
      for_each_read(*node, [&](int32_t v) {
        if (!inside.contains(v) && seen.insert(v).second) enter.values.push_back(v);
      });
      for (int32_t v : node->outputs) {
        if (v < 0) continue;
        const auto found = readers_.find(v);
        const bool outside =
            graph_outputs_.contains(v) ||
            (found != readers_.end() &&
             std::any_of(found->second.begin(), found->second.end(),
                         [&](const ImportedNode* reader) { return !own.contains(reader); }));
        if (outside) leave.values.push_back(v);
      }
    }
    steps_.push_back(std::move(enter));
    emit(members, number + 1);
    steps_.push_back(std::move(leave));
    return rest;
  }

  const ImportedModel& model_;
  std::vector<std::string> modules_;  // shorter paths first
  Nodes all_;
  std::map<int32_t, Nodes> readers_;
  std::set<int32_t> graph_outputs_;
  std::vector<CallStep> steps_;
};

}  // namespace

std::vector<CallStep> find_calls(const ImportedModel& model, const ImportedGraph& graph,
                                 const std::vector<std::string>& modules) {
  return CallFinder(model, graph, modules).run();
}

}  // namespace trainrt
