// The driver of a specialization: state that is shared by all nodes. Private to the frontend.
#ifndef TRAINRT_FRONTEND_SPECIALIZER_H_
#define TRAINRT_FRONTEND_SPECIALIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frontend/imported.h"

namespace trainrt {

/// A subgraph could not be lowered, or a value is not known yet: reported already.
struct Poisoned {};

inline size_t index(int32_t i) { return static_cast<size_t>(i); }

/// Refuses, with Error(kMemory), to compute constants without end.
Evaluator bounded_evaluator(const Evaluator& evaluator);

class Specializer {
 public:
  Specializer(const ImportedModel& model, const SpecializeOptions& options,
              const Evaluator& evaluator, Diagnostics& problems)
      : m(model),
        options(options),
        problems(problems),
        evaluator(evaluator),
        b(result.graph, bounded_evaluator(evaluator)),
        env(model.values.size()),
        poisoned(model.values.size(), false) {}

  Specialized run(const std::map<std::string, InputBinding>& inputs);

  bool is_poisoned(int32_t value) const { return value >= 0 && poisoned[index(value)]; }
  /// The value of an input of a node; weights are made on first use.
  Var get(int32_t value);
  void set(int32_t value, Var v) {
    env[index(value)] = v;
    poisoned[index(value)] = false;
    sequences.erase(value);
  }
  std::vector<Var> subgraph(const ImportedGraph& graph, std::span<const Var> inputs);
  Tensor constant_of(Var v, const std::string& what);

  const ImportedModel& m;
  const SpecializeOptions& options;
  Diagnostics& problems;
  Specialized result;
  const Evaluator& evaluator;
  Builder b;
  std::vector<Var> env;  // by value
  std::vector<bool> poisoned;
  std::map<int32_t, std::vector<Var>> sequences;  // values that are sequences; not in env
  std::map<int32_t, int64_t> narrow;  // ONNX's element type of values that are kept in a wider one
  Var rng;
  int64_t streams = 0;
  /// New value of each buffer, in order of first update, and the origin of the last one.
  struct Update {
    ValueId buffer;
    Var value;
    int32_t source;
  };
  std::vector<Update> updates;

 private:
  void bind(const std::map<std::string, InputBinding>& inputs);
  void report_unknown();
  void lower_graph(const ImportedGraph& graph);
  void lower_node(const ImportedNode& node);
  void report(const ImportedNode& node, const std::string& kind, const std::string& reason) {
    problems.add({node.name, node.op, node.domain, node.opset, kind, reason});
  }
  void poison_outputs(const ImportedNode& node) {
    for (int32_t v : node.outputs) {
      if (v >= 0) poisoned[index(v)] = true;
    }
  }
  std::vector<bool> ancestors(Var v) const;
  Tensor evaluate(Var v, const std::vector<bool>& nodes, const std::string& what);
  Var weight(int32_t w);

  std::map<int32_t, Var> weights_;
  std::map<std::string, const ImportedWeight*> stored_by_name_;
  int64_t steps_ = 0;
  bool stopped_ = false;
};

/// What a lowering sees of a node.
std::unique_ptr<LowerContext> make_context(Specializer& specializer, const ImportedNode& node);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_SPECIALIZER_H_
