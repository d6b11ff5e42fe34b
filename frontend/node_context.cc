// The node that a lowering sees.
#include <set>
#include <string_view>

#include "frontend/specializer.h"

namespace trainrt {
namespace {

class Context final : public LowerContext {
 public:
  Context(Specializer& s, const ImportedNode& node)
      : LowerContext(s.b, s.options_of(node), node.opset, node.op), s_(s), node_(node) {
    domain = node.domain;
  }

  size_t input_count() const override { return node_.inputs.size(); }
  Var in(size_t i) const override {
    const NodeValue whole = value(i);
    const Var v = tensor_of(whole);
    if (!v && !is_absent(whole)) {
      invalid("input " + std::to_string(i) +
              (std::holds_alternative<Sequence>(whole) ? " is a sequence" : " is empty") +
              "; this operator takes tensors only");
    }
    if (i >= 3 && op == "BatchNormalization") {
      // The layer ran before in this graph: go on from what it left, as frameworks do.
      for (const Specializer::Update& u : s_.updates) {
        if (u.buffer == v.id()) return u.value;
      }
    }
    return v;
  }
  Tensor constant(size_t i) const override {
    const Var v = need(i);
    return s_.constant_of(v, "input " + std::to_string(i) + " ('" + value_name(i) + "')");
  }
  Tensor constant_of(Var v, const std::string& what) const override {
    return s_.constant_of(v, what);
  }

  bool has_attr(std::string_view name) const override { return node_.find(name) != nullptr; }
  int64_t attr_int(std::string_view name) const override {
    return attribute(name, onnx::AttributeProto::INT, "an integer").i();
  }
  double attr_float(std::string_view name) const override {
    return static_cast<double>(attribute(name, onnx::AttributeProto::FLOAT, "a float").f());
  }
  std::string attr_string(std::string_view name) const override {
    return attribute(name, onnx::AttributeProto::STRING, "a string").s();
  }
  std::vector<int64_t> attr_ints(std::string_view name) const override {
    const auto& a = attribute(name, onnx::AttributeProto::INTS, "a list of integers");
    return {a.ints().begin(), a.ints().end()};
  }
  std::vector<double> attr_floats(std::string_view name) const override {
    const auto& a = attribute(name, onnx::AttributeProto::FLOATS, "a list of floats");
    return {a.floats().begin(), a.floats().end()};
  }
  std::vector<std::string> attr_strings(std::string_view name) const override {
    const auto& a = attribute(name, onnx::AttributeProto::STRINGS, "a list of strings");
    return {a.strings().begin(), a.strings().end()};
  }
  Tensor attr_tensor(std::string_view name) const override {
    const auto& a = attribute(name, onnx::AttributeProto::TENSOR, "a tensor");
    const auto slot = s_.m.slots.find(&a.t());
    if (slot == s_.m.slots.end()) invalid("attribute " + std::string(name) + " holds no tensor");
    const Stored& stored = s_.m.stored[index(slot->second)];
    if (!stored.unsupported.empty()) {
      refuse("no_lowering", "attribute " + std::string(name) + " is a " + stored.unsupported);
    }
    return is_float(stored.value.dtype()) ? stored.value.to(working) : stored.value;
  }

  size_t output_count() const override { return node_.outputs.size(); }
  bool wants(size_t i) const override {
    return i < node_.outputs.size() && node_.outputs[i] >= 0 &&
           s_.m.values[index(node_.outputs[i])].read;
  }
  void set(size_t i, Var value) override { set_value(i, value); }
  int64_t narrow_type(size_t i) const override {
    if (i >= node_.inputs.size() || node_.inputs[i] < 0) return 0;
    const int32_t w = s_.m.values[index(node_.inputs[i])].weight;
    if (w >= 0) return s_.m.weights[index(w)].stored.narrow;
    const auto it = s_.narrow.find(node_.inputs[i]);
    return it == s_.narrow.end() ? 0 : it->second;
  }
  void set_narrow(size_t i, int64_t type) override {
    if (i >= node_.outputs.size() || node_.outputs[i] < 0) return;
    if (type != 0) {
      s_.narrow[node_.outputs[i]] = type;
    } else {
      s_.narrow.erase(node_.outputs[i]);
    }
  }

  NodeValue value(size_t i) const override {
    return i < node_.inputs.size() && node_.inputs[i] >= 0 ? s_.get(node_.inputs[i]) : Var();
  }
  void set_value(size_t i, NodeValue value) override {
    if (i < node_.outputs.size() && node_.outputs[i] >= 0 && !is_absent(value)) {
      s_.set(node_.outputs[i], std::move(value));
      set_narrow(i, only_moves() ? narrow_type(0) : 0);
    }
  }

  Var rng() override {
    if (!s_.rng) {
      s_.rng = b.input(InputAttrs{"rng", InputRole::kRng, DType::kInt64, {2}});
    }
    return s_.rng;
  }
  int64_t next_stream() override { return s_.streams++; }

  void update_buffer(size_t i, Var value) override {
    if (!options.training || i >= node_.inputs.size() || node_.inputs[i] < 0) return;
    const Var buffer = tensor_of(s_.get(node_.inputs[i]));
    if (!buffer) return;
    const Node& producer = b.graph().producer(buffer.id());
    const auto* input = std::get_if<InputAttrs>(&producer.attrs);
    if (producer.op != Op::kInput || input == nullptr || input->role != InputRole::kBuffer) return;
    for (Specializer::Update& u : s_.updates) {
      if (u.buffer == buffer.id()) {
        u.value = value;
        u.source = b.source();
        return;
      }
    }
    s_.updates.push_back({buffer.id(), value, b.source()});
  }

  std::vector<NodeValue> subgraph(std::string_view attr,
                                  std::span<const NodeValue> inputs) override {
    return s_.subgraph(graph(attr), inputs);
  }
  size_t subgraph_input_count(std::string_view attr) const override {
    return graph(attr).inputs.size();
  }
  size_t subgraph_output_count(std::string_view attr) const override {
    return graph(attr).outputs.size();
  }
  void leave_out(std::string_view attr) override { s_.leave_out(graph(attr)); }

 private:
  /// Whether the elements of the result are those of input 0.
  bool only_moves() const {
    static const std::set<std::string_view> kOps = {
        "Concat",   "DepthToSpace", "Expand", "Flatten",   "Gather",   "GatherElements",
        "GatherND", "Identity",     "Pad",    "Reshape",   "Slice",    "SpaceToDepth",
        "Split",    "Squeeze",      "Tile",   "Transpose", "Unsqueeze"};
    return node_.domain.empty() && kOps.contains(op);
  }

  const std::string& value_name(size_t i) const { return s_.m.values[index(node_.inputs[i])].name; }

  const onnx::AttributeProto& attribute(std::string_view name,
                                        onnx::AttributeProto::AttributeType type,
                                        const char* what) const {
    const ImportedAttr* a = node_.find(name);
    if (a == nullptr) invalid("attribute " + std::string(name) + " is missing");
    // Very old files leave the type out.
    if (a->proto->type() != type && a->proto->type() != onnx::AttributeProto::UNDEFINED) {
      invalid("attribute " + std::string(name) + " must be " + what);
    }
    return *a->proto;
  }

  const ImportedGraph& graph(std::string_view attr) const {
    const ImportedAttr* a = node_.find(attr);
    if (a == nullptr || !a->graph) invalid("attribute " + std::string(attr) + " holds no graph");
    return *a->graph;
  }

  Specializer& s_;
  const ImportedNode& node_;
};

}  // namespace

std::unique_ptr<LowerContext> make_context(Specializer& specializer, const ImportedNode& node) {
  return std::make_unique<Context>(specializer, node);
}

}  // namespace trainrt
