#include "tests/frontend/model_util.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "graph/verify.h"
#include "kernels/reference/evaluate.h"
#include "onnx/defs/parser.h"

namespace trainrt {

namespace {

/// What ONNX 1.17's parser does not know: `any name` in backticks, and [name] before a node.
class Extensions {
 public:
  std::string encode(std::string text) {
    static const std::regex quoted("`([^`]*)`");
    for (std::smatch match; std::regex_search(text, match, quoted);) {
      const std::string id = "quoted" + std::to_string(names_.size()) + "_";
      names_[id] = match[1];
      text = match.prefix().str() + id + match.suffix().str();
    }
    static const std::regex label(R"re( \[([A-Za-z_/][^\]\s"]*)\] ([A-Za-z_][A-Za-z0-9_]*))re");
    for (std::smatch match; std::regex_search(text, match, label);) {
      labels_[match[2]] = match[1];
      text = match.prefix().str() + " " + match[2].str() + match.suffix().str();
    }
    return text;
  }

  void decode(onnx::ModelProto& model) const {
    graph(*model.mutable_graph());
    for (auto& f : *model.mutable_functions()) nodes(*f.mutable_node());
  }

 private:
  template <typename Nodes>
  void nodes(Nodes& list) const {
    for (onnx::NodeProto& n : list) {
      const auto label = n.output_size() > 0 ? labels_.find(n.output(0)) : labels_.end();
      if (label != labels_.end()) n.set_name(label->second);
      for (std::string& s : *n.mutable_input()) rename(s);
      for (std::string& s : *n.mutable_output()) rename(s);
      for (auto& a : *n.mutable_attribute()) {
        if (a.has_g()) graph(*a.mutable_g());
      }
    }
  }
  void graph(onnx::GraphProto& g) const {
    for (auto& v : *g.mutable_input()) rename(*v.mutable_name());
    for (auto& v : *g.mutable_output()) rename(*v.mutable_name());
    for (auto& t : *g.mutable_initializer()) rename(*t.mutable_name());
    nodes(*g.mutable_node());
  }
  void rename(std::string& s) const {
    const auto it = names_.find(s);
    if (it != names_.end()) s = it->second;
  }

  std::map<std::string, std::string> names_, labels_;  // by identifier; by first output
};

}  // namespace

std::string model_bytes(const std::string& text) {
  onnx::ModelProto model;
  Extensions extensions;
  const auto status = onnx::OnnxParser::Parse(model, extensions.encode(text).c_str());
  INFO(status.ErrorMessage());
  REQUIRE(status.IsOK());
  extensions.decode(model);
  return model.SerializeAsString();
}

OnnxModel model_of(const std::string& text) { return load_bytes(model_bytes(text)); }

OnnxModel load_bytes(const std::string& bytes, const std::string& folder) {
  return OnnxModel::from_bytes({bytes.data(), bytes.size()}, folder);
}

std::string load_error(const std::string& bytes) {
  try {
    load_bytes(bytes);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string graph_text(const std::string& graph, int opset) {
  return "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + graph;
}

Lowered lower(const OnnxModel& model, const Tensors& inputs, const Tensors& known,
              SpecializeOptions options) {
  std::map<std::string, InputBinding> bindings;
  for (const auto& [name, t] : inputs) bindings[name] = {{t.dtype(), t.shape()}, {}};
  for (const auto& [name, t] : known) bindings[name] = {{t.dtype(), t.shape()}, t};
  Diagnostics problems;
  Lowered lowered{model.specialize(bindings, options, evaluate_node, problems), {}};
  lowered.problems = problems.problems();
  if (lowered.problems.empty() && lowered.result.needs_value.empty()) verify(lowered.result.graph);
  return lowered;
}

Tensors run(const OnnxModel& model, const Tensors& inputs, const Tensors& known,
            SpecializeOptions options, Tensors* weights) {
  Lowered lowered = lower(model, inputs, known, options);
  for (const Problem& p : lowered.problems) UNSCOPED_INFO(to_string(p));
  REQUIRE(lowered.problems.empty());
  REQUIRE(lowered.result.needs_value.empty());
  const Graph& graph = lowered.result.graph;
  Tensors feed;
  for (NodeId id : graph.inputs()) {
    const auto& input = std::get<InputAttrs>(graph.node(id).attrs);
    switch (input.role) {
      case InputRole::kData:
        feed[input.name] = inputs.at(input.name).to(input.dtype);
        break;
      case InputRole::kRng:
        feed[input.name] = Tensor(DType::kInt64, {2});
        break;
      default:
        if (weights != nullptr && weights->count(input.name) > 0) {
          feed[input.name] = weights->at(input.name);
        } else {
          feed[input.name] = model.weight(input.name).to(input.dtype);
          if (weights != nullptr) (*weights)[input.name] = feed[input.name];
        }
    }
  }
  return evaluate_graph(graph, feed);
}

Problem only_problem(const OnnxModel& model, const Tensors& inputs) {
  const Lowered lowered = lower(model, inputs);
  for (const Problem& p : lowered.problems) UNSCOPED_INFO(to_string(p));
  REQUIRE(lowered.problems.size() == 1);
  return lowered.problems[0];
}

Tensor doubles(std::initializer_list<double> values, Shape shape) {
  return Tensor::from<double>(values, std::move(shape));
}

Tensor pseudo_random(Shape shape, uint64_t seed) {
  Tensor t(DType::kFloat64, std::move(shape));
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (double& v : t.data<double>()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<double>(state >> 11) * 0x1p-52 - 1.0;
  }
  return t;
}

double max_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double worst = 0;
  const Tensor x = a.to(DType::kFloat64), y = b.to(DType::kFloat64);
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    worst = std::max(worst, std::abs(x.data<double>()[at] - y.data<double>()[at]));
  }
  return worst;
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  REQUIRE(out.good());
}

}  // namespace trainrt
