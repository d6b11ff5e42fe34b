#include "graph/passes/pass.h"

#include <algorithm>
#include <chrono>

#include "graph/graph_copy.h"
#include "graph/verify.h"

namespace trainrt {

bool rewrite(Graph& graph, const Evaluator& evaluator,
             const std::function<Replacement(Builder&, const Node&, std::span<const Var>)>& rule) {
  GraphCopy copy(graph);
  Builder b(copy.graph(), evaluator);
  bool changed = false;
  std::vector<Var> operands;
  for (const Node& node : graph.nodes()) {
    operands.clear();
    for (ValueId v : node.inputs) operands.push_back(b.wrap(copy.mapped(v)));
    b.set_section(node.section);
    b.set_source(node.source);
    const Replacement replacement = rule(b, node, operands);
    if (!replacement) {
      copy.keep(node);  // not through the builder, which would fold and merge
      continue;
    }
    changed = true;
    TRAINRT_CHECK(replacement->size() == node.outputs.size(),
                  "a rewrite rule replaces each output of a node");
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId result = (*replacement)[i].id();
      TRAINRT_CHECK(b.graph().type(result) == graph.type(node.outputs[i]),
                    "a rewrite rule keeps types");
      copy.map(node.outputs[i], result);
    }
  }
  if (!changed) return false;
  graph = copy.finish();
  return true;
}

std::vector<PassTiming> Pipeline::run(Graph& graph, const PipelineOptions& options) const {
  for (const std::string& name : options.disabled) {
    const bool known = std::any_of(passes_.begin(), passes_.end(),
                                   [&](const auto& pass) { return pass->name() == name; });
    if (!known) {
      std::string names;
      for (const auto& pass : passes_) {
        names += (names.empty() ? "" : ", ") + std::string(pass->name());
      }
      throw Error(ErrorCode::kUsage, "cannot disable pass '" + name + "': the passes are " + names);
    }
  }
  std::vector<PassTiming> timings;
  for (const auto& pass : passes_) {
    if (std::find(options.disabled.begin(), options.disabled.end(), pass->name()) !=
        options.disabled.end()) {
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const bool changed = pass->run(graph);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    timings.push_back({std::string(pass->name()), took.count(), changed});
    if (changed && options.verify) {
      try {
        verify(graph);
      } catch (const Error& e) {
        throw Error(e.code(), "after pass '" + std::string(pass->name()) + "': " + e.what());
      }
    }
    if (options.after_each_pass) options.after_each_pass(pass->name(), graph);
  }
  return timings;
}

}  // namespace trainrt
