#include "kernels/reference/evaluate.h"

#include "kernels/kernel.h"

namespace trainrt {
namespace {

using Lists = std::span<const std::span<const KernelRow>>;

std::unique_ptr<Kernel> plan_node(Lists lists, const NodeView& node, Scratch& scratch) {
  std::string reasons;
  for (const std::span<const KernelRow> list : lists) {
    for (const KernelRow& row : list) {
      if (row.op != node.op) continue;
      const Support support = row.supports == nullptr ? Support::yes() : row.supports(node);
      if (support.ok) return row.plan(node, scratch);
      reasons += ": " + support.reason;
    }
  }
  throw Error(ErrorCode::kInternal,
              "no kernel takes " + std::string(op_info(node.op).name) + reasons);
}

/// Runs a node on given storage.
void run_node(Lists lists, Op op, const Attrs& attrs, std::span<const Tensor> inputs,
              std::span<const TensorType> output_types, std::span<Tensor> outputs) {
  std::vector<TensorType> input_types;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Tensor& t : inputs) {
    input_types.push_back({t.dtype(), t.shape()});
    in.push_back(t.raw());
  }
  for (Tensor& t : outputs) out.push_back(t.raw());
  Scratch scratch;
  const auto kernel = plan_node(lists, {op, attrs, input_types, output_types}, scratch);
  Tensor memory(DType::kUInt8, {static_cast<int64_t>(scratch.bytes)});
  kernel->run({in.data(), out.data(), memory.raw()});
}

const Tensor& given_input(const InputAttrs& attrs, const std::map<std::string, Tensor>& inputs) {
  const auto found = inputs.find(attrs.name);
  if (found == inputs.end()) {
    throw Error(ErrorCode::kInput, "input '" + attrs.name + "' (" +
                                       to_string(TensorType{attrs.dtype, attrs.shape}) +
                                       ") is missing");
  }
  const Tensor& value = found->second;
  if (!value.defined() || value.dtype() != attrs.dtype || value.shape() != attrs.shape) {
    throw Error(ErrorCode::kInput, "input '" + attrs.name + "': expected " +
                                       to_string(TensorType{attrs.dtype, attrs.shape}) +
                                       ", given " +
                                       to_string(TensorType{value.dtype(), value.shape()}));
  }
  return value;
}

}  // namespace

std::vector<Tensor> evaluate_node(Op op, const Attrs& attrs, std::span<const Tensor> inputs,
                                  std::span<const TensorType> outputs) {
  static const Evaluator evaluator = make_evaluator({reference_kernels()});
  return evaluator(op, attrs, inputs, outputs);
}

Evaluator make_evaluator(KernelLists lists) {
  return [lists = std::move(lists)](Op op, const Attrs& attrs, std::span<const Tensor> inputs,
                                    std::span<const TensorType> outputs) {
    std::vector<Tensor> results;
    for (const TensorType& type : outputs) results.emplace_back(type.dtype, type.shape);
    run_node(lists, op, attrs, inputs, outputs, results);
    return results;
  };
}

std::map<std::string, Tensor> evaluate_graph(const Graph& graph,
                                             std::map<std::string, Tensor> inputs) {
  const KernelLists lists = {reference_kernels()};
  std::vector<Tensor> values(static_cast<size_t>(graph.value_count()));
  const auto value = [&](ValueId id) -> Tensor& { return values[static_cast<size_t>(id.index)]; };
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId{n});
    if (node.op == Op::kInput) {
      value(node.outputs[0]) = given_input(std::get<InputAttrs>(node.attrs), inputs);
      continue;
    }
    std::vector<Tensor> in, out;
    std::vector<TensorType> types;
    for (ValueId id : node.inputs) in.push_back(value(id));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorType& type = graph.type(node.outputs[i]);
      // Output 0 is the state itself; the further outputs of OptimizerUpdate are its slots.
      const size_t storage = i == 0 ? 0 : 3 + i;
      out.push_back(is_state_update(node.op) ? in[storage] : Tensor(type.dtype, type.shape));
      types.push_back(type);
    }
    try {
      run_node(lists, node.op, node.attrs, in, types, out);
    } catch (const Error& e) {
      throw Error(e.code(), describe(graph, NodeId{n}) + ": " + e.what());
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) value(node.outputs[i]) = out[i];
  }
  std::map<std::string, Tensor> results;
  for (const Output& output : graph.outputs()) {
    if (output.role == OutputRole::kState) continue;
    const std::string prefix = output.role == OutputRole::kGradient ? "grad/" : "";
    results[prefix + output.name] = value(output.value);
  }
  return results;
}

}  // namespace trainrt
