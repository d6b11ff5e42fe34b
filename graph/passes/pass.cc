#include "graph/passes/pass.h"

#include <algorithm>
#include <chrono>

#include "graph/verify.h"

namespace trainrt {

bool rewrite(Graph& graph, const Evaluator& evaluator,
             const std::function<Replacement(Builder&, const Node&, std::span<const Var>)>& rule) {
  Graph fresh;
  for (const SourceRef& source : graph.sources()) fresh.add_source(source);
  Builder b(fresh, evaluator);
  std::vector<ValueId> mapped(static_cast<size_t>(graph.value_count()));
  bool changed = false;
  std::vector<Var> operands;
  for (const Node& node : graph.nodes()) {
    operands.clear();
    for (ValueId v : node.inputs) operands.push_back(b.wrap(mapped[static_cast<size_t>(v.index)]));
    b.set_section(node.section);
    b.set_source(node.source);
    Replacement replacement = rule(b, node, operands);
    std::vector<ValueId> results;
    if (replacement) {
      changed = true;
      TRAINRT_CHECK(replacement->size() == node.outputs.size(),
                    "a rewrite rule replaces each output of a node");
      for (Var v : *replacement) results.push_back(v.id());
    } else {
      // Not through the builder, which would fold and merge.
      std::vector<ValueId> inputs;
      std::vector<TensorType> types;
      for (Var v : operands) inputs.push_back(v.id());
      for (ValueId v : node.outputs) types.push_back(graph.type(v));
      results = fresh
                    .node(fresh.add_node(node.op, std::move(inputs), node.attrs, std::move(types),
                                         node.section, node.source))
                    .outputs;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const Value& old = graph.value(node.outputs[i]);
      TRAINRT_CHECK(fresh.type(results[i]) == old.type, "a rewrite rule keeps types");
      if (fresh.value(results[i]).name.empty()) fresh.value(results[i]).name = old.name;
      mapped[static_cast<size_t>(node.outputs[i].index)] = results[i];
    }
  }
  if (!changed) return false;
  for (const Output& output : graph.outputs()) {
    fresh.add_output(output.name, mapped[static_cast<size_t>(output.value.index)], output.role);
  }
  graph = std::move(fresh);
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
