#include "runtime/custom_loss.h"

#include <atomic>

#include "kernels/reference/evaluate.h"
#include "runtime/extend/expr_var.h"

namespace trainrt {
namespace {

std::atomic<int64_t> next_number = 0;

std::string key_of(const std::string& target) {
  return target.empty() ? "target" : "target/" + target;
}

class Graphs final : public LossGraph {
 public:
  Graphs(Builder& builder, const std::vector<std::pair<std::string, ValueId>>& outputs,
         const std::map<std::string, TensorType>& targets, DType working)
      : builder_(builder), outputs_(outputs), targets_(targets), working_(working) {}

  Expr output(const std::string& name) const override {
    std::string known;
    for (const auto& [own, value] : outputs_) {
      if (own == name) return expr_of(builder_.wrap(value));
      known += (known.empty() ? "" : ", ") + own;
    }
    throw Error(ErrorCode::kUsage,
                "the loss asks for output '" + name + "'; the model's are " + known);
  }

  Expr output(size_t index) const override {
    if (index >= outputs_.size()) {
      throw Error(ErrorCode::kUsage, "the loss asks for output " + std::to_string(index) + " of " +
                                         std::to_string(outputs_.size()));
    }
    return expr_of(builder_.wrap(outputs_[index].second));
  }

  bool has_target(const std::string& name) const override {
    return targets_.contains(key_of(name));
  }

  Expr target(const std::string& name) const override {
    const auto found = targets_.find(key_of(name));
    if (found == targets_.end()) {
      throw Error(ErrorCode::kInput, "the loss needs '" + key_of(name) + "' in the batch");
    }
    Var& made = made_[found->first];
    const DType given = found->second.dtype;
    if (!made) {
      made = builder_.input({found->first, InputRole::kTarget,
                             is_float(given) ? working_ : DType::kInt64, found->second.shape});
    }
    return expr_of(made);
  }

 private:
  Builder& builder_;
  const std::vector<std::pair<std::string, ValueId>>& outputs_;
  const std::map<std::string, TensorType>& targets_;
  DType working_;
  mutable std::map<std::string, Var> made_;
};

/// Appends a specialized graph with its data inputs bound; its one output.
Var inline_graph(const Graph& graph, Builder& b, const OnnxModel& model,
                 const std::map<std::string, Var>& inputs, DType working) {
  std::vector<Var> values(static_cast<size_t>(graph.value_count()));
  for (const Node& node : graph.nodes()) {
    std::vector<Var> operands;
    for (ValueId v : node.inputs) operands.push_back(values[static_cast<size_t>(v.index)]);
    std::vector<Var> results;
    if (node.op != Op::kInput) {
      results = b.add_all(node.op, operands, node.attrs);
    } else {
      const auto& attrs = std::get<InputAttrs>(node.attrs);
      const auto bound = inputs.find(attrs.name);
      if (attrs.role == InputRole::kData) {
        results = {bound->second};
      } else if (attrs.role == InputRole::kParameter || attrs.role == InputRole::kBuffer) {
        results = {b.constant(model.weight(attrs.name).to(working))};
      } else {
        throw Error(ErrorCode::kUnsupported, "a loss graph that draws random numbers");
      }
    }
    for (size_t k = 0; k < results.size(); ++k) {
      values[static_cast<size_t>(node.outputs[k].index)] = results[k];
    }
  }
  return values[static_cast<size_t>(graph.outputs()[0].value.index)];
}

Var specialized_loss(const OnnxModel& loss, const OnnxModel& model, const LossGraph& g) {
  std::map<std::string, Var> inputs;
  std::map<std::string, InputBinding> bindings;
  size_t targets = 0;
  const auto is_output = [&](const std::string& name) {
    return find_port(model.outputs(), name) != nullptr;
  };
  for (const Port& port : loss.inputs()) targets += is_output(port.name) ? 0 : 1;
  Builder* builder = nullptr;
  DType working = DType::kFloat32;
  for (const Port& port : loss.inputs()) {
    const bool lone = targets == 1 && !g.has_target(port.name);
    const Var v =
        var_of(is_output(port.name) ? g.output(port.name) : g.target(lone ? "" : port.name));
    builder = &v.builder();
    if (is_float(v.dtype())) working = v.dtype();
    inputs[port.name] = v;
  }
  // Integers count as numbers where the graph wants those; what does not fit is refused below.
  for (const Port& port : loss.inputs()) {
    Var& v = inputs[port.name];
    if (is_float(port.dtype)) {
      v = cast(v, working);
    } else if (!is_float(v.dtype())) {
      v = cast(v, port.dtype);
    }
    bindings[port.name].type = v.type();
  }
  if (builder == nullptr) throw Error(ErrorCode::kUsage, "a loss graph without inputs");
  SpecializeOptions options;
  options.working = working;
  options.training = false;
  Diagnostics problems;
  const Specialized special = loss.specialize(bindings, options, evaluate_node, problems);
  problems.throw_if_any(ErrorCode::kUnsupported, "the loss graph cannot be used");
  if (!special.needs_value.empty()) {
    throw Error(ErrorCode::kUnsupported, "the loss graph needs the contents of '" +
                                             special.needs_value[0] + "' when the plan is made");
  }
  return inline_graph(special.graph, *builder, loss, inputs, working);
}

}  // namespace

std::shared_ptr<const CustomLoss> make_custom_loss(LossFunction build) {
  if (!build) throw Error(ErrorCode::kUsage, "attach_loss() needs a function");
  return std::make_shared<CustomLoss>(CustomLoss{++next_number, std::move(build)});
}

std::shared_ptr<const CustomLoss> make_graph_loss(std::shared_ptr<const OnnxModel> loss,
                                                  const OnnxModel& model) {
  if (loss->outputs().size() != 1) {
    throw Error(ErrorCode::kUsage, "a loss graph has one output, this one has " +
                                       std::to_string(loss->outputs().size()));
  }
  if (loss->outputs()[0].kind != PortKind::kTensor) {
    throw Error(ErrorCode::kUsage,
                "the output of a loss graph is a tensor, this one is a sequence "
                "or an optional");
  }
  return make_custom_loss([loss = std::move(loss), &model](const LossGraph& g) {
    return expr_of(specialized_loss(*loss, model, g));
  });
}

Var build_custom_loss(const CustomLoss& loss, Builder& builder,
                      const std::vector<std::pair<std::string, ValueId>>& outputs,
                      const std::map<std::string, TensorType>& targets, DType working) {
  const Graphs graphs(builder, outputs, targets, working);
  const Var value = var_of(loss.build(graphs));
  if (!value || !is_float(value.dtype()) || element_count(value.shape()) != 1) {
    throw Error(ErrorCode::kUsage, "a loss is one floating number; this one is " +
                                       (value ? to_string(value.type()) : std::string("absent")));
  }
  return value.rank() == 0 ? value : reshape(value, {});
}

}  // namespace trainrt
