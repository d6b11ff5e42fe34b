// The driver of a specialization: state that is shared by all nodes. Private to the frontend.
#ifndef TRAINRT_FRONTEND_SPECIALIZER_H_
#define TRAINRT_FRONTEND_SPECIALIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "frontend/imported.h"
#include "frontend/registered_ops.h"

namespace trainrt {

/// A subgraph could not be lowered, or a value is not known yet: reported already.
struct Poisoned {};

inline size_t index(int32_t i) { return static_cast<size_t>(i); }

/// Refuses, with Error(kMemory), to compute constants without end.
Evaluator bounded_evaluator(const Evaluator& evaluator);

class Specializer {
 public:
  Specializer(const ImportedModel& model, const SpecializeOptions& options,
              const Evaluator& evaluator, Diagnostics& problems, const Contents& contents)
      : m(model),
        options(options),
        other_mode(options),
        problems(problems),
        evaluator(evaluator),
        contents(contents),
        b(result.graph, bounded_evaluator(evaluator)),
        env(model.values.size()),
        poisoned(model.values.size(), false) {
    other_mode.training = !options.training;
  }

  Specialized run(const std::map<std::string, InputBinding>& inputs);

  bool is_poisoned(int32_t value) const { return value >= 0 && poisoned[index(value)]; }
  /// The value of an input of a node; weights are made on first use.
  NodeValue get(int32_t value);
  void set(int32_t value, NodeValue v) {
    env[index(value)] = std::move(v);
    poisoned[index(value)] = false;
  }
  std::vector<NodeValue> subgraph(const ImportedGraph& graph, std::span<const NodeValue> inputs);
  /// A branch that this specialization can never take: what it holds is no obstacle.
  void leave_out(const ImportedGraph& graph) { left_out_.insert(&graph); }
  bool is_left_out(const ImportedGraph& graph) const {
    return left_out_.contains(&graph) &&
           !entered_.contains(&graph);  // loops may take either branch
  }
  Tensor constant_of(Var v, const std::string& what);

  const ImportedModel& m;
  const SpecializeOptions& options;
  SpecializeOptions other_mode;  // with the other value of `training`
  /// The options with the mode of the node's module.
  const SpecializeOptions& options_of(const ImportedNode& node) const;
  Diagnostics& problems;
  Specialized result;
  const Evaluator& evaluator;
  const Contents& contents;
  Builder b;
  std::vector<NodeValue> env;  // by value
  std::vector<bool> poisoned;
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
  void report_unknown(const ImportedGraph& graph);
  NodeValue bind_port(const Port& port, const std::map<std::string, InputBinding>& inputs);
  Var bind_tensor(const std::string& name, DType declared, const InputBinding& binding);
  void name(const NodeValue& value, const std::string& name);
  void lower_graph(const ImportedGraph& graph);
  void lower_calls(const ImportedGraph& graph);
  std::vector<Var> cross(const std::vector<int32_t>& values, std::vector<std::string>& names,
                         std::vector<int32_t>& crossing) const;
  void lower_with_gradient(LowerContext& context, const ImportedNode& node,
                           const RegisteredGradient& rule);
  void lower_node(const ImportedNode& node);
  void report(const ImportedNode& node, const std::string& kind, const std::string& reason) {
    problems.add({node.name, node.op, node.domain, node.opset, kind, reason});
  }
  void poison_outputs(const ImportedNode& node) {
    for (int32_t v : node.outputs) {
      if (v >= 0) poisoned[index(v)] = true;
    }
  }
  std::vector<NodeId> ancestors(Var v, bool* varying) const;
  Tensor evaluate(Var v, const std::vector<NodeId>& nodes, const std::string& what);
  Tensor input_contents(const InputAttrs& input) const;
  Var weight(int32_t w);

  std::map<int32_t, Var> weights_;
  std::map<std::string, const ImportedWeight*> stored_by_name_;
  std::set<const ImportedGraph*> left_out_, entered_;
  std::map<ValueId, Tensor> known_;    // evaluated so far, for constant_of
  std::set<ValueId> varying_;          // of these: what inputs or weights have a part in
  std::map<ValueId, Tensor> decided_;  // those that constant_of gave out as decisions
  uint64_t known_bytes_ = 0;
  int64_t steps_ = 0;
  bool stopped_ = false;
};

/// What a lowering sees of a node.
std::unique_ptr<LowerContext> make_context(Specializer& specializer, const ImportedNode& node);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_SPECIALIZER_H_
