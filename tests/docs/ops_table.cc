#include "tests/docs/ops_table.h"

#include <array>
#include <map>
#include <set>
#include <vector>

#include "autodiff/rule.h"
#include "frontend/lower.h"
#include "kernels/kernel.h"

namespace trainrt {
namespace {

std::string opsets(const std::set<int64_t>& since, std::string_view domain) {
  std::string text;
  for (int64_t s : since) text += (text.empty() ? "" : ", ") + std::to_string(s);
  return text + (domain.empty() ? "–" + std::to_string(kNewestOpset) : "+");
}

std::string gradient(GradInputs inputs) {
  switch (inputs) {
    case GradInputs::kNone:
      return "none";
    case GradInputs::kFirst:
      return "first input";
    case GradInputs::kFirstTwo:
      return "first two inputs";
    case GradInputs::kFirstThree:
      return "first three inputs";
    case GradInputs::kSecond:
      return "second input";
    case GradInputs::kAllButFirst:
      return "all but the first input";
    default:
      return "all float inputs";
  }
}

struct Entry {
  std::set<int64_t> since;
  GradInputs differentiable = GradInputs::kAll;
  std::string_view limits;
};
using Entries = std::map<std::pair<std::string_view, std::string_view>, Entry>;

Entries entries() {
  Entries result;
  for (const auto& list : lowering_lists()) {
    for (const LoweringRow& row : list) {
      Entry& entry = result[{row.domain, row.op}];
      entry.since.insert(row.since);
      entry.differentiable = row.differentiable;
      if (!row.limits.empty()) entry.limits = row.limits;
    }
  }
  return result;
}

std::string onnx_table() {
  std::string text =
      "| op | from opset | gradients flow to | limits: refused are |\n|---|---|---|---|\n";
  for (const auto& [key, entry] : entries()) {
    const auto& [domain, op] = key;
    text += "| " + (domain.empty() ? "" : std::string(domain) + "::") + std::string(op) + " | " +
            opsets(entry.since, domain) + " | " + gradient(entry.differentiable) + " | " +
            std::string(entry.limits) + " |\n";
  }
  return text;
}

/// CUDA rows of an op, or why there are none.
std::string cuda_rows(Op op) {
  std::string text, last;
  for (const KernelRow& row : cuda_kernels()) {
    if (row.op != op || row.name == last) continue;
    text += (text.empty() ? "" : ", ") + std::string(row.name);
    last = row.name;
  }
  if (!text.empty()) return text;
  if (op == Op::kInput || op == Op::kConstant) return "held";
  if (is_view(op)) return "view";
  if (op == Op::kTransfer) return "copy";
  if (op == Op::kCall || op == Op::kHook)
    return "none: a function of the program's runs on the CPU";
  if (op == Op::kNormConv || op == Op::kNormConvGrad) return "none: not made for GPUs";
  return "none";
}

std::string row_names(Op op, bool onednn) {
  std::string text;
  for (const KernelRow& row : cpu_kernels()) {
    if (row.op != op || row.name.starts_with("onednn") != onednn) continue;
    text += (text.empty() ? "" : ", ") + std::string(row.name);
  }
  return text;
}

std::string ir_table() {
  std::string text =
      "| op | gradient | reference | oneDNN | own CPU kernels | CUDA "
      "|\n|---|---|---|---|---|---|\n";
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    std::string reference = "no";
    for (const KernelRow& row : reference_kernels()) {
      if (row.op == op) reference = "yes";
    }
    const GradKind kind = grad_row(op).kind;
    text += "| " + std::string(op_info(op).name) + " | " +
            (kind == GradKind::kRule   ? "rule"
             : kind == GradKind::kNone ? "none"
                                       : "refused") +
            " | " + reference + " | " + row_names(op, true) + " | " + row_names(op, false) + " | " +
            cuda_rows(op) + " |\n";
  }
  return text;
}

bool has_gradient(const Entries& all, std::string_view op) {
  for (const std::string_view domain : {"", "com.microsoft"}) {
    const auto it = all.find({domain, op});
    if (it != all.end() && it->second.differentiable != GradInputs::kNone) return true;
  }
  return false;
}

std::string coverage_table() {
  const Entries all = entries();
  std::map<std::string_view, std::array<bool, 2>> peers;
  for (std::string_view op : onnxruntime_gradients()) peers[op][0] = true;
  for (std::string_view op : onnxsim_gradients()) peers[op][1] = true;
  std::string text = "| op | trainrt | ONNX Runtime | onnxsim |\n|---|---|---|---|\n";
  for (const auto& [op, has] : peers) {
    text += "| " + std::string(op) + " | " + (has_gradient(all, op) ? "yes" : "**no**") + " | " +
            (has[0] ? "yes" : "") + " | " + (has[1] ? "yes" : "") + " |\n";
  }
  int ours = 0;
  for (const auto& [key, entry] : all) ours += entry.differentiable != GradInputs::kNone;
  return text + "\ntrainrt: gradients through " + std::to_string(ours) +
         " operators; ONNX Runtime: " + std::to_string(onnxruntime_gradients().size()) +
         "; onnxsim: " + std::to_string(onnxsim_gradients().size()) + ".\n";
}

}  // namespace

std::span<const std::string_view> onnxruntime_gradients() {
  static constexpr std::string_view kOps[] = {
      "Abs",
      "Add",
      "AveragePool",
      "BatchNormalization",
      "BiasGelu",
      "Cast",
      "Clip",
      "Concat",
      "Conv",
      "ConvTranspose",
      "Cos",
      "Div",
      "Dropout",
      "Erf",
      "Exp",
      "Expand",
      "FastGelu",
      "Flatten",
      "GRU",
      "Gather",
      "GatherElements",
      "GatherND",
      "Gelu",
      "Gemm",
      "GlobalAveragePool",
      "Identity",
      "LSTM",
      "LayerNormalization",
      "LeakyRelu",
      "Log",
      "LogSoftmax",
      "MatMul",
      "MatMulBnb4",
      "Max",
      "MaxPool",
      "Min",
      "Mul",
      "Neg",
      "Pad",
      "Pow",
      "QuickGelu",
      "Reciprocal",
      "ReduceL2",
      "ReduceLogSumExp",
      "ReduceMean",
      "ReduceSum",
      "Relu",
      "Reshape",
      "Resize",
      "ScatterElements",
      "ScatterND",
      "Sigmoid",
      "SimplifiedLayerNormalization",
      "Sin",
      "Slice",
      "Softmax",
      "SoftmaxCrossEntropyLoss",
      "Split",
      "Sqrt",
      "Squeeze",
      "Sub",
      "Tanh",
      "Tile",
      "TopK",
      "Transpose",
      "Trilu",
      "Unsqueeze",
      "Where",
  };
  return kOps;
}

std::span<const std::string_view> onnxsim_gradients() {
  static constexpr std::string_view kOps[] = {
      "Add",
      "AveragePool",
      "BatchNormalization",
      "Clip",
      "Concat",
      "Conv",
      "DepthToSpace",
      "DequantizeLinear",
      "Div",
      "Dropout",
      "Elu",
      "Erf",
      "Exp",
      "Expand",
      "Gather",
      "Gemm",
      "GlobalAveragePool",
      "Identity",
      "InstanceNormalization",
      "LayerNormalization",
      "LeakyRelu",
      "Log",
      "MatMul",
      "MaxPool",
      "Mul",
      "Neg",
      "PRelu",
      "Pad",
      "QuantizeLinear",
      "ReduceMean",
      "ReduceSum",
      "Relu",
      "Reshape",
      "Sigmoid",
      "Slice",
      "Softmax",
      "Softplus",
      "Split",
      "Sqrt",
      "Squeeze",
      "Sub",
      "Tanh",
      "Transpose",
      "Unsqueeze",
      "Where",
  };
  return kOps;
}

bool has_gradient(std::string_view op) { return has_gradient(entries(), op); }

std::string ops_table() {
  return "# Operators\n\n"
         "Written by `bazel run //tests/docs:ops_table -- \"$PWD/docs/ops.md\"` from the tables in "
         "the code; a "
         "test fails when it is\nstale.\n\n"
         "## ONNX operators\n\n"
         "`none`: the operator has no derivative (or none by convention): what lies behind it gets "
         "no "
         "gradient. A form of an op\nthat cannot be done (`limits` names them) is refused with a "
         "reason when the model "
         "is "
         "specialized.\n\n" +
         onnx_table() +
         "\n## Beside others\n\n"
         "Operators with a gradient in the training build of ONNX Runtime 1.19.2 (those it makes "
         "itself while building a training graph,\nand those for several machines, are left out) "
         "and in onnxsim 0.8.1.\n\n" +
         coverage_table() +
         "\n## Ops of the IR\n\n"
         "What the operators above are lowered to. Every op runs on the reference kernels in "
         "float32 "
         "and float64; a row\nthat does not support a node passes it on to the next. CUDA kernels "
         "are written, planned and emulated, and have not\nrun on a GPU yet "
         "([cuda.md](cuda.md)).\n\n" +
         ir_table();
}

}  // namespace trainrt
