#include "tests/runtime/joint_graphs.h"

#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "graph/verify.h"
#include "kernels/reference/evaluate.h"
#include "tests/runtime/models.h"

namespace trainrt::testing {

Graph joint_graph(const JointOptions& options) {
  constexpr DType kType = DType::kFloat64;
  Graph graph;
  Builder b(graph, evaluate_node);
  Var h = b.input({"x", InputRole::kData, kType, {5, 6}});
  const Var target = b.input({"t", InputRole::kTarget, kType, {5, 6}});
  std::vector<Var> parameters;
  std::vector<std::string> names;
  for (int i = 0; i < options.layers; ++i) {
    names.push_back("w" + std::to_string(i));
    parameters.push_back(b.input({names.back(), InputRole::kParameter, kType, {6, 6}}));
    names.push_back("b" + std::to_string(i));
    parameters.push_back(b.input({names.back(), InputRole::kParameter, kType, {6}}));
    h = matmul(h, parameters[parameters.size() - 2]) + parameters.back();
    if (options.views) h = reshape(h, {5, 2, 3});
    h = i % 2 == 0 ? relu(h) : tanh(h);
    if (options.views) {
      h = h + stop_gradient(sigmoid(h));
      h = unary(Op::kIdentity, reshape(h, {5, 6}));
    }
  }
  graph.add_output("y", h.id());
  graph.add_output("y_flat", reshape(h, {30}).id());
  const Var loss = reduce_mean(square(h - target), {0, 1});
  graph.add_output("loss", loss.id(), OutputRole::kLoss);

  Diagnostics problems;
  const Seed seeds[] = {{loss, b.fill(kType, 1)}};
  const std::vector<Var> gradients = differentiate(b, seeds, parameters, problems);
  problems.throw_if_any(ErrorCode::kInternal, "test graph");
  graph.add_output("w0", gradients[0].id(), OutputRole::kGradient);
  Var scale;
  if (options.clip_norm > 0) scale = clip_scale(b, gradients, options.clip_norm);
  const Var hyper = b.input({"hyper", InputRole::kHyper, kType, {2}});
  std::vector<UpdateTarget> targets;
  for (size_t i = 0; i < parameters.size(); ++i) {
    targets.push_back({names[i], parameters[i], gradients[i]});
  }
  add_updates(b, parse_optimizer(options.optimizer, nullptr), targets, hyper, scale);
  verify(graph);
  return graph;
}

std::map<std::string, Tensor> input_values(const Graph& graph, uint64_t seed) {
  std::map<std::string, Tensor> values;
  for (NodeId id : graph.inputs()) {
    const auto& attrs = std::get<InputAttrs>(graph.node(id).attrs);
    if (attrs.role == InputRole::kHyper) {
      values[attrs.name] = Tensor::from<double>({0.01, 1}, {2});
    } else if (attrs.role == InputRole::kOptimizerState) {
      values[attrs.name] = Tensor(attrs.dtype, attrs.shape);
    } else {
      values[attrs.name] = numbers(attrs.shape, ++seed, attrs.dtype);
    }
  }
  return values;
}

}  // namespace trainrt::testing
