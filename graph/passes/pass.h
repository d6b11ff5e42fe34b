// Passes: named functions from graph to graph, and the pipeline that runs them.
#ifndef TRAINRT_GRAPH_PASSES_PASS_H_
#define TRAINRT_GRAPH_PASSES_PASS_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"

namespace trainrt {

class Pass {
 public:
  virtual ~Pass() = default;
  virtual std::string_view name() const = 0;
  /// True when the graph changed.
  virtual bool run(Graph& graph) = 0;
};

/// What a rewrite puts in a node's place: nothing (the node is copied), or a value for each of its
/// outputs.
using Replacement = std::optional<std::vector<Var>>;

/// Rebuilds the graph node by node into a fresh one: `rule` sees each node with its inputs already
/// mapped, may add nodes to the builder (section and origin are set to the node's), and returns the
/// replacement. Returns whether any rule applied. Outputs and names are carried over.
bool rewrite(Graph& graph, const Evaluator& evaluator,
             const std::function<Replacement(Builder&, const Node&, std::span<const Var>)>& rule);

struct PassTiming {
  std::string name;
  double ms = 0;
  bool changed = false;
};

struct PipelineOptions {
  std::vector<std::string> disabled;                                         // pass names
  std::function<void(std::string_view pass, const Graph&)> after_each_pass;  // dumps; may be empty
  bool verify = true;
};

/// Runs passes in order, verifying after each one that changed the graph.
class Pipeline {
 public:
  void add(std::unique_ptr<Pass> pass) { passes_.push_back(std::move(pass)); }
  std::vector<PassTiming> run(Graph& graph, const PipelineOptions& options = {}) const;

 private:
  std::vector<std::unique_ptr<Pass>> passes_;
};

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_PASSES_PASS_H_
