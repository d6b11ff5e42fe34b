#include "tests/runtime/models.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainrt::testing {
namespace {

class ModelMaker {
 public:
  ModelMaker() {
    model_.set_ir_version(8);
    auto* opset = model_.add_opset_import();
    opset->set_domain("");
    opset->set_version(17);
    graph().set_name("test");
  }
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  void port(onnx::ValueInfoProto* info, const std::string& name, int type,
            const std::vector<std::string>& dims) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    auto* shape = tensor->mutable_shape();
    for (const std::string& dim : dims) {
      auto* d = shape->add_dim();
      if (std::isdigit(static_cast<unsigned char>(dim[0]))) {
        d->set_dim_value(std::stoll(dim));
      } else {
        d->set_dim_param(dim);
      }
    }
  }
  void input(const std::string& name, const std::vector<std::string>& dims,
             int type = onnx::TensorProto::FLOAT) {
    port(graph().add_input(), name, type, dims);
  }
  void output(const std::string& name, const std::vector<std::string>& dims) {
    port(graph().add_output(), name, onnx::TensorProto::FLOAT, dims);
  }
  void weight(const std::string& name, const Shape& shape, uint64_t seed) {
    values(name, shape, numbers(shape, seed, DType::kFloat32));
  }
  void values(const std::string& name, const Shape& shape, const Tensor& data) {
    auto* w = graph().add_initializer();
    w->set_name(name);
    w->set_data_type(onnx::TensorProto::FLOAT);
    for (int64_t d : shape) w->add_dims(d);
    for (float v : data.data<float>()) w->add_float_data(v);
  }
  void set_opset(int64_t version) { model_.mutable_opset_import(0)->set_version(version); }
  onnx::NodeProto* node(const std::string& op, const std::vector<std::string>& in,
                        const std::vector<std::string>& out) {
    auto* n = graph().add_node();
    n->set_op_type(op);
    n->set_name(out[0] + "_node");
    for (const auto& i : in) n->add_input(i);
    for (const auto& o : out) n->add_output(o);
    return n;
  }
  std::string bytes() const { return model_.SerializeAsString(); }

 private:
  onnx::ModelProto model_;
};

std::string mlp(bool dropout) {
  ModelMaker m;
  m.input("x", {"n", "4"});
  m.output("y", {"n", "3"});
  m.weight("fc1.weight", {4, 8}, 11);
  m.weight("fc1.bias", {8}, 12);
  m.weight("fc2.weight", {8, 3}, 13);
  m.weight("fc2.bias", {3}, 14);
  m.node("MatMul", {"x", "fc1.weight"}, {"h0"});
  m.node("Add", {"h0", "fc1.bias"}, {"h1"});
  m.node("Relu", {"h1"}, {"h2"});
  if (dropout) m.node("Dropout", {"h2"}, {"h3"});
  m.node("MatMul", {dropout ? "h3" : "h2", "fc2.weight"}, {"h4"});
  m.node("Add", {"h4", "fc2.bias"}, {"y"});
  return m.bytes();
}

}  // namespace

std::string mlp_model() { return mlp(false); }
std::string dropout_model() { return mlp(true); }

std::string conv_model() {
  ModelMaker m;
  m.input("x", {"n", "3", "16", "16"});
  m.output("y", {"n", "16"});
  std::string from = "x";
  for (uint64_t i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    m.weight("conv" + n, {16, i == 0 ? 3 : 16, 3, 3}, 2 * i + 1);
    for (const char* part : {"scale", "bias", "mean"}) m.weight(part + n, {16}, 2 * i + 2);
    Tensor variance(DType::kFloat32, {16});
    variance.fill(1);
    m.values("variance" + n, {16}, variance);
    auto* pads = m.node("Conv", {from, "conv" + n}, {"c" + n})->add_attribute();
    pads->set_name("pads");
    pads->set_type(onnx::AttributeProto::INTS);
    for (int k = 0; k < 4; ++k) pads->add_ints(1);
    m.node("BatchNormalization", {"c" + n, "scale" + n, "bias" + n, "mean" + n, "variance" + n},
           {"b" + n});
    m.node("Relu", {"b" + n}, {"r" + n});
    m.node("Dropout", {"r" + n}, {"d" + n});
    if (i >= 2) m.node("Add", {"d" + n, from}, {"s" + n});
    from = (i >= 2 ? "s" : "d") + n;
  }
  m.node("GlobalAveragePool", {from}, {"pooled"});
  m.node("Flatten", {"pooled"}, {"y"});
  return m.bytes();
}

std::string batch_norm_model() {
  ModelMaker m;
  m.input("x", {"n", "2", "k"});
  m.output("y", {"n", "2", "k"});
  m.values("bn.weight", {2}, Tensor::from<float>({1.5f, 0.5f}, {2}));
  m.values("bn.bias", {2}, Tensor::from<float>({0.1f, -0.2f}, {2}));
  m.values("bn.mean", {2}, Tensor::from<float>({0.3f, -0.3f}, {2}));
  m.values("bn.var", {2}, Tensor::from<float>({2.0f, 0.5f}, {2}));
  m.node("BatchNormalization", {"x", "bn.weight", "bn.bias", "bn.mean", "bn.var"}, {"y"});
  return m.bytes();
}

std::string embedding_model() {
  ModelMaker m;
  m.input("ids", {"n"}, onnx::TensorProto::INT64);
  m.output("y", {"n", "3"});
  m.weight("table", {5, 3}, 21);
  m.node("Gather", {"table", "ids"}, {"y"});
  return m.bytes();
}

std::string reshape_model() {
  ModelMaker m;
  m.input("x", {"n", "6"});
  m.input("shape", {"r"}, onnx::TensorProto::INT64);
  m.output("y", {"a", "b"});
  m.weight("scale", {6}, 31);
  m.node("Mul", {"x", "scale"}, {"scaled"});
  m.node("Reshape", {"scaled", "shape"}, {"y"});
  return m.bytes();
}

std::string two_output_model() {
  ModelMaker m;
  m.input("x", {"n", "2"});
  m.output("a", {"n", "2"});
  m.output("b", {"n", "2"});
  m.weight("w", {2}, 41);
  m.node("Mul", {"x", "w"}, {"a"});
  m.node("Exp", {"a"}, {"b"});
  return m.bytes();
}

std::string sequence_model() {
  ModelMaker m;
  for (auto* info : {m.graph().add_input(), m.graph().add_output()}) {
    m.port(info, info == &m.graph().input(0) ? "xs" : "ys", onnx::TensorProto::FLOAT, {"n", "2"});
    const onnx::TypeProto entry = info->type();
    *info->mutable_type()->mutable_sequence_type()->mutable_elem_type() = entry;
  }
  m.weight("w", {2}, 51);
  auto* attribute = m.node("SequenceMap", {"xs"}, {"ys"})->add_attribute();
  attribute->set_name("body");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto& body = *attribute->mutable_g();
  body.set_name("body");
  m.port(body.add_input(), "x", onnx::TensorProto::FLOAT, {"n", "2"});
  m.port(body.add_output(), "y", onnx::TensorProto::FLOAT, {"n", "2"});
  auto* product = body.add_node();
  product->set_op_type("Mul");
  product->add_input("x");
  product->add_input("w");
  product->add_output("y");
  return m.bytes();
}

namespace {

std::string layer_model(const std::string& product, const std::string& sum,
                        const std::string& weight, const std::string& bias) {
  ModelMaker m;
  m.input("x", {"n", "4"});
  m.output("y", {"n", "2"});
  m.weight(weight, {4, 2}, 41);
  m.weight(bias, {2}, 42);
  m.node("MatMul", {"x", weight}, {"h"})->set_name(product);
  m.node("Add", {"h", bias}, {"y"})->set_name(sum);
  return m.bytes();
}

}  // namespace

std::string keras_model() {
  const std::string layer = "StatefulPartitionedCall/model/dense/";
  return layer_model(layer + "MatMul", layer + "BiasAdd", layer + "MatMul/ReadVariableOp:0",
                     layer + "BiasAdd/ReadVariableOp:0");
}

std::string paddle_model() {
  return layer_model("p2o.MatMul.0", "p2o.Add.0", "linear_0.w_0", "linear_0.b_0");
}

std::string head_model(int64_t opset) {
  ModelMaker m;
  m.set_opset(opset);
  m.input("x", {"n", "4"});
  m.output("y", {"n", "2"});
  m.weight("fc.weight", {4, 2}, 31);
  m.weight("fc.bias", {2}, 32);
  m.node("Gemm", {"x", "fc.weight", "fc.bias"}, {"y"});
  return m.bytes();
}

std::string plain_model() {
  ModelMaker m;
  m.input("x", {"n", "2"});
  m.output("y", {"n", "2"});
  m.node("Relu", {"x"}, {"y"});
  return m.bytes();
}

Module load(const std::string& bytes, ModuleOptions options) {
  return Module::from_bytes({bytes.data(), bytes.size()}, options);
}

ModuleOptions exact() {
  ModuleOptions options;
  options.dtype = DType::kFloat64;
  return options;
}

Tensor numbers(Shape shape, uint64_t seed, DType dtype) {
  Tensor t(DType::kFloat64, std::move(shape));
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (double& v : t.data<double>()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<double>(static_cast<int64_t>(state >> 33)) / 1073741824.0 - 1;
  }
  return dtype == DType::kFloat64 ? t : t.to(dtype);
}

Tensor ids(std::vector<int64_t> values) { return Tensor::of_ints(values); }

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  const Tensor x = a.to(DType::kFloat64), y = b.to(DType::kFloat64);
  double largest = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto k = static_cast<size_t>(i);
    const double d = std::abs(x.data<double>()[k] - y.data<double>()[k]);
    if (!(d <= largest)) largest = d;
  }
  return largest;
}

}  // namespace trainrt::testing
