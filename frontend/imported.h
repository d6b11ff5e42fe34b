// An ONNX file with its names resolved and its local functions inlined. Private to the frontend.
#ifndef TRAINRT_FRONTEND_IMPORTED_H_
#define TRAINRT_FRONTEND_IMPORTED_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/decode.h"
#include "frontend/lower.h"
#include "frontend/onnx_model.h"
#include "frontend/torch_metadata.h"

namespace trainrt {

struct ImportedGraph;

struct ImportedAttr {
  std::string name;
  const onnx::AttributeProto* proto = nullptr;  // after references to a function's attributes
  std::unique_ptr<ImportedGraph> graph;         // of a graph attribute
};

struct ImportedNode {
  std::string name;  // the node's, or its first output's when it has none
  std::string op, domain;
  int64_t opset = 0;
  const onnx::NodeProto* proto = nullptr;
  std::vector<int32_t> inputs, outputs;  // values; -1: absent. Trailing absent ones are cut
  std::vector<ImportedAttr> attrs;
  const LoweringRow* row = nullptr;  // null: no lowering
  bool needed = false;               // for an output of the graph
  /// The module it belongs to (frontend/scope.h), and the scope in its name: the exporter numbers
  /// the scopes of a module that is called again ("act", "act_1").
  std::string module, scope;

  const ImportedAttr* find(std::string_view attr) const {
    for (const ImportedAttr& a : attrs) {
      if (a.name == attr) return &a;
    }
    return nullptr;
  }
};

struct ImportedGraph {
  std::string name;
  std::vector<int32_t> inputs, outputs;
  std::vector<ImportedNode> nodes;
};

/// A value of any graph; numbered through the whole model.
struct ImportedValue {
  std::string name;
  int32_t weight = -1;  // stored value, -1 for computed ones
  bool read = false;    // by a needed node, or it is an output of a graph
};

enum class WeightUse : uint8_t { kConstant, kParameter, kBuffer, kTied };

/// A stored tensor: an initializer or the value of a Constant node.
/// A whole weight of the framework that one of the file holds.
struct WeightOrigin {
  std::string name;
  bool transposed = false;
  Shape shape;  // in the framework
};

struct ImportedWeight {
  WeightInfo info;
  std::optional<WeightOrigin> origin;  // where it can be told
  int32_t slot = -1;                   // -1: value is held here only
  Stored stored;
  bool initializer = true;
  bool is_float = false;
  WeightUse use = WeightUse::kConstant;
  // The parameter with the same values, and whether this one is its transpose. kTied: the one it is
  // one with.
  int32_t tied_to = -1;
  bool tied_transposed = false;
  /// Index, in for_each_node's order, of the Identity that gives this buffer its name; the writer
  /// makes it a Constant when the value has changed. -1: a weight of its own.
  int32_t identity_node = -1;
};

struct ImportedModel {
  onnx::ModelProto proto;                          // without the bytes that were moved to weights
  std::unordered_map<const void*, int32_t> slots;  // Slot::key() to index
  std::vector<Stored> stored;                      // by slot index
  std::map<std::string, int64_t> opsets;
  TorchMetadata torch;

  ImportedGraph graph;
  std::vector<ImportedValue> values;
  std::vector<ImportedWeight> weights;
  std::vector<Port> inputs, outputs;    // ports of graph.inputs and graph.outputs
  std::vector<std::string> odd_inputs;  // by input; why it is no tensor trainrt knows, or empty
  std::vector<bool> float_outputs;      // by output; true also when the type is not declared
  std::vector<ModuleInfo> modules;
  std::map<std::string, int64_t> op_counts;
  std::vector<std::string> warnings;
};

/// Calls visit(node) for all nodes of a graph and of its subgraphs, a node before its subgraphs.
template <typename Graph, typename Visit>
void for_each_imported(Graph& graph, const Visit& visit) {
  for (auto& node : graph.nodes) {
    visit(node);
    for (auto& attr : node.attrs) {
      if (attr.graph) for_each_imported(*attr.graph, visit);
    }
  }
}

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_IMPORTED_H_
