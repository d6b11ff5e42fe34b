#include "graph/verify.h"

#include <set>
#include <unordered_map>

#include "graph/infer.h"
#include "graph/text_names.h"

namespace trainrt {
namespace {

std::string line(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::string out = "  ";
  for (ValueId v : node.outputs) {
    out += "%" + std::to_string(v.index);
    if (v.index >= 0 && v.index < graph.value_count()) out += ':' + to_string(graph.type(v));
    out += ' ';
  }
  out += "= " + std::string(op_info(node.op).name) + '(';
  for (ValueId v : node.inputs) out += " %" + std::to_string(v.index);
  return out + " ) " + to_string(node.attrs, /*full=*/false) + '\n';
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void run() {
    check_values();
    for (int32_t i = 0; i < graph_.node_count(); ++i) check_node(NodeId{i});
    for (const Output& output : graph_.outputs()) {
      if (!exists(output.value)) fail(NodeId{}, "output '" + output.name + "' has no value");
    }
    check_input_names();
    check_state();
  }

 private:
  [[noreturn]] void fail(NodeId at, const std::string& fault) const {
    std::string message = "the graph is broken: " + fault + '\n';
    for (int32_t i = std::max(at.index - 2, 0); at && i < at.index + 3 && i < graph_.node_count();
         ++i) {
      message += line(graph_, NodeId{i});
    }
    throw Error(ErrorCode::kInternal, message);
  }

  bool exists(ValueId id) const { return id.index >= 0 && id.index < graph_.value_count(); }
  std::string name(NodeId id) const { return describe(graph_, id); }

  void check_values() const {
    for (int32_t i = 0; i < graph_.value_count(); ++i) {
      const Value& value = graph_.value(ValueId{i});
      const bool produced =
          value.producer.index >= 0 && value.producer.index < graph_.node_count() &&
          value.index >= 0 &&
          static_cast<size_t>(value.index) < graph_.node(value.producer).outputs.size();
      if (!produced ||
          graph_.node(value.producer).outputs[static_cast<size_t>(value.index)] != ValueId{i}) {
        fail(NodeId{}, "value %" + std::to_string(i) + " does not belong to its producer");
      }
    }
  }

  void check_node(NodeId id) const {
    const Node& node = graph_.node(id);
    if (static_cast<int>(node.op) >= kOpCount) fail(NodeId{}, "a node has no known op");
    if (static_cast<size_t>(node.section) >= std::size(kSectionNames)) {
      fail(id, name(id) + " is in no section");
    }
    if (node.source < -1 || node.source >= static_cast<int32_t>(graph_.sources().size())) {
      fail(id, "a node's source does not exist");
    }
    std::vector<TensorType> inputs, outputs;
    for (ValueId v : node.inputs) {
      if (!exists(v)) fail(id, name(id) + " reads a value that does not exist");
      const Value& value = graph_.value(v);
      if (value.producer.index >= id.index) {
        fail(id, name(id) + " reads %" + std::to_string(v.index) + " before it is produced");
      }
      if (graph_.node(value.producer).section > node.section) {
        fail(id, name(id) + " of section " +
                     std::string(kSectionNames[static_cast<size_t>(node.section)]) + " reads %" +
                     std::to_string(v.index) + " of a later section");
      }
      inputs.push_back(computed(value.type));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId v = node.outputs[i];
      if (!exists(v) || graph_.value(v).producer != id ||
          graph_.value(v).index != static_cast<int32_t>(i)) {
        fail(id, name(id) + ": output " + std::to_string(i) + " is not its own");
      }
      outputs.push_back(graph_.type(v));
    }
    std::vector<TensorType> inferred;
    try {
      inferred = infer_types(node.op, inputs, node.attrs);
    } catch (const Error& e) {
      fail(id, name(id) + ": " + e.what());
    }
    if (inferred.size() != outputs.size()) {
      fail(id, name(id) + " has " + std::to_string(outputs.size()) + " outputs, expected " +
                   std::to_string(inferred.size()));
    }
    for (size_t i = 0; i < inferred.size(); ++i) {
      // Layouts and bfloat16 are the business of the passes that choose them.
      if (computed(inferred[i]) != computed(outputs[i])) {
        fail(id, name(id) + ": output " + std::to_string(i) + " is " + to_string(outputs[i]) +
                     ", inferred " + to_string(inferred[i]));
      }
    }
  }

  void check_input_names() const {
    std::set<std::pair<InputRole, std::string>> names;
    for (NodeId id : graph_.inputs()) {
      const auto& attrs = std::get<InputAttrs>(graph_.node(id).attrs);
      if (!names.emplace(attrs.role, attrs.name).second) {
        fail(id, "two inputs of one role are called '" + attrs.name + "'");
      }
    }
  }

  // The value whose bytes v shows.
  ValueId storage(ValueId v) const {
    for (;;) {
      const Node& node = graph_.producer(v);
      if (!is_view(node.op)) return v;
      v = node.inputs[0];
    }
  }

  static std::vector<size_t> state_operands(const Node& node) {
    if (!is_state_update(node.op)) return {};
    std::vector<size_t> operands = {0};
    if (node.op == Op::kOptimizerUpdate) {
      for (size_t i = 4; i < node.inputs.size(); ++i) operands.push_back(i);
    }
    return operands;
  }

  void check_state() const {
    std::unordered_map<ValueId, NodeId> updated;
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const NodeId id{i};
      const Node& node = graph_.node(id);
      for (ValueId v : node.inputs) {
        const auto it = updated.find(storage(v));
        if (it == updated.end()) continue;
        fail(id, name(id) + " reads %" + std::to_string(v.index) + ", which " + name(it->second) +
                     " has already changed");
      }
      for (size_t operand : state_operands(node)) {
        const ValueId state = node.inputs[operand];
        const Node& producer = graph_.producer(state);
        if (producer.op != Op::kInput || !holds_state(std::get<InputAttrs>(producer.attrs).role)) {
          fail(id, name(id) + " updates %" + std::to_string(state.index) +
                       ", which is no parameter, buffer, optimizer state or gradient store");
        }
        if (!updated.emplace(state, id).second) {
          fail(id, name(id) + " updates %" + std::to_string(state.index) + " twice");
        }
      }
    }
  }

  static bool holds_state(InputRole role) {
    return role == InputRole::kParameter || role == InputRole::kBuffer ||
           role == InputRole::kOptimizerState || role == InputRole::kGradient;
  }

  const Graph& graph_;
};

}  // namespace

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace trainrt
