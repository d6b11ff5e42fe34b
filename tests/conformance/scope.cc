#include "tests/conformance/scope.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace trainrt::conformance {
namespace {

using Visit = std::function<void(const onnx::NodeProto&)>;

void for_each_node(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                   const Visit& visit) {
  for (const onnx::NodeProto& node : nodes) {
    visit(node);
    for (const onnx::AttributeProto& a : node.attribute()) {
      if (a.has_g()) for_each_node(a.g().node(), visit);
    }
  }
}

void for_each_node(const onnx::ModelProto& model, const Visit& visit) {
  for_each_node(model.graph().node(), visit);
  for (const onnx::FunctionProto& f : model.functions()) for_each_node(f.node(), visit);
}

bool holds_strings(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return holds_strings(type.sequence_type().elem_type());
  if (type.has_optional_type()) return holds_strings(type.optional_type().elem_type());
  return type.has_tensor_type() && type.tensor_type().elem_type() == onnx::TensorProto::STRING;
}

bool holds_strings(const onnx::AttributeProto& a) {
  return a.t().data_type() == onnx::TensorProto::STRING || a.name() == "value_string" ||
         a.name() == "value_strings";
}

bool holds_strings(const onnx::ModelProto& model) {
  const onnx::GraphProto& g = model.graph();
  auto info = [](const onnx::ValueInfoProto& v) { return holds_strings(v.type()); };
  bool found = std::any_of(g.input().begin(), g.input().end(), info) ||
               std::any_of(g.output().begin(), g.output().end(), info);
  for_each_node(model, [&](const onnx::NodeProto& node) {
    for (const onnx::AttributeProto& a : node.attribute()) {
      found = found || holds_strings(a) ||
              (node.op_type() == "Cast" && a.name() == "to" && a.i() == onnx::TensorProto::STRING);
    }
  });
  return found;
}

}  // namespace

std::string out_of_scope(const onnx::ModelProto& model) {
  std::string reason;
  for_each_node(model, [&](const onnx::NodeProto& node) {
    if (node.domain() == "ai.onnx.ml" || node.domain() == "ai.onnx.preview.training") {
      reason = "domain " + node.domain();
    }
    if (node.op_type() == "ImageDecoder") reason = "decoding of image files";
  });
  if (reason.empty() && holds_strings(model)) reason = "string tensors";
  return reason;
}

bool is_random(const onnx::ModelProto& model) {
  bool random = false;
  for_each_node(model, [&](const onnx::NodeProto& node) {
    const std::string& op = node.op_type();
    random = random || op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial" ||
             (op == "Dropout" && node.input_size() > 2 && !node.input(2).empty());
  });
  return random;
}

}  // namespace trainrt::conformance
