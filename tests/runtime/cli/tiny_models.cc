#include "tests/runtime/cli/tiny_models.h"

#include <initializer_list>

namespace trainrt {
namespace {

void set_port(onnx::ValueInfoProto* port, const std::string& name, int64_t batch, int64_t width) {
  port->set_name(name);
  auto* type = port->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  auto* first = type->mutable_shape()->add_dim();
  if (batch > 0) {
    first->set_dim_value(batch);
  } else {
    first->set_dim_param("n");
  }
  type->mutable_shape()->add_dim()->set_dim_value(width);
}

/// Values that look random and are the same everywhere.
void add_weight(onnx::GraphProto* graph, const std::string& name,
                std::initializer_list<int64_t> dims, float scale, float offset = 0) {
  auto* weight = graph->add_initializer();
  weight->set_name(name);
  weight->set_data_type(onnx::TensorProto::FLOAT);
  int64_t count = 1;
  for (const int64_t dim : dims) {
    weight->add_dims(dim);
    count *= dim;
  }
  uint32_t state = static_cast<uint32_t>(name.size()) * 7919u + static_cast<uint32_t>(count);
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    weight->add_float_data(offset + scale * (static_cast<float>(state >> 8) / 8388608.0f - 1.0f));
  }
}

onnx::NodeProto* add_node(onnx::GraphProto* graph, const std::string& op, const std::string& name,
                          std::initializer_list<const char*> inputs, const std::string& output) {
  auto* node = graph->add_node();
  node->set_op_type(op);
  node->set_name(name);
  for (const char* input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

onnx::ModelProto empty_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  model.mutable_graph()->set_name("tiny");
  return model;
}

}  // namespace

onnx::ModelProto mlp(const MlpOptions& options) {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* graph = model.mutable_graph();
  set_port(graph->add_input(), "x", options.batch, 4);
  set_port(graph->add_output(), "y", options.batch, 3);
  add_weight(graph, "fc1.weight", {8, 4}, 0.5f);
  add_weight(graph, "fc1.bias", {8}, 0.1f);
  add_weight(graph, "fc2.weight", {3, 8}, 0.5f);
  add_weight(graph, "fc2.bias", {3}, 0.1f);
  const auto transpose = [](onnx::NodeProto* node) {
    auto* attribute = node->add_attribute();
    attribute->set_name("transB");
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(1);
  };
  transpose(add_node(graph, "Gemm", "fc1", {"x", "fc1.weight", "fc1.bias"}, "h1"));
  const char* hidden = "h1";
  if (options.batch_norm) {
    add_weight(graph, "bn.weight", {8}, 0.1f, 1.0f);
    add_weight(graph, "bn.bias", {8}, 0.1f);
    add_weight(graph, "bn.mean", {8}, 0.1f);
    add_weight(graph, "bn.var", {8}, 0.1f, 1.0f);
    add_node(graph, "BatchNormalization", "bn",
             {hidden, "bn.weight", "bn.bias", "bn.mean", "bn.var"}, "h2");
    hidden = "h2";
  }
  add_node(graph, "Tanh", "act", {hidden}, "h3");
  hidden = "h3";
  if (options.dropout) {
    auto* ratio = graph->add_initializer();
    ratio->set_name("ratio");
    ratio->set_data_type(onnx::TensorProto::FLOAT);
    ratio->add_float_data(0.5f);
    add_node(graph, "Dropout", "drop", {hidden, "ratio"}, "h4");
    hidden = "h4";
  }
  transpose(add_node(graph, "Gemm", "fc2", {hidden, "fc2.weight", "fc2.bias"}, "y"));
  return model;
}

onnx::ModelProto mlp_with_unknown_ops() {
  onnx::ModelProto model = mlp();
  auto* domain = model.add_opset_import();
  domain->set_domain("vendor");
  domain->set_version(1);
  onnx::GraphProto* graph = model.mutable_graph();
  add_node(graph, "Fancy", "fancy_1", {"x"}, "f")->set_domain("vendor");
  add_node(graph, "Plainly", "plain_2", {"f"}, "p");
  auto* last = graph->mutable_node(2);
  last->set_input(0, "p");
  // Nodes in topological order: the last Gemm goes behind the new ones.
  onnx::NodeProto gemm = *last;
  graph->mutable_node()->DeleteSubrange(2, 1);
  *graph->add_node() = gemm;
  return model;
}

onnx::ModelProto without_parameters() {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* graph = model.mutable_graph();
  set_port(graph->add_input(), "x", 0, 3);
  set_port(graph->add_output(), "y", 0, 3);
  auto* one = graph->add_initializer();
  one->set_name("one");
  one->set_data_type(onnx::TensorProto::FLOAT);
  one->add_float_data(1.0f);
  add_node(graph, "Add", "add", {"x", "one"}, "y");
  return model;
}

}  // namespace trainrt
