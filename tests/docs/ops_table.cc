#include "tests/docs/ops_table.h"

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

std::string onnx_table() {
  struct Entry {
    std::set<int64_t> since;
    GradInputs differentiable = GradInputs::kAll;
  };
  std::map<std::pair<std::string_view, std::string_view>, Entry> entries;
  for (const auto& list : lowering_lists()) {
    for (const LoweringRow& row : list) {
      Entry& entry = entries[{row.domain, row.op}];
      entry.since.insert(row.since);
      entry.differentiable = row.differentiable;
    }
  }
  std::string text = "| op | from opset | gradients flow to |\n|---|---|---|\n";
  for (const auto& [key, entry] : entries) {
    const auto& [domain, op] = key;
    text += "| " + (domain.empty() ? "" : std::string(domain) + "::") + std::string(op) + " | " +
            opsets(entry.since, domain) + " | " + gradient(entry.differentiable) + " |\n";
  }
  return text;
}

std::string ir_table() {
  std::string text = "| op | gradient | CPU rows, best first | reference |\n|---|---|---|---|\n";
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    std::string cpu, reference = "no";
    for (const KernelRow& row : cpu_kernels()) {
      if (row.op == op) cpu += (cpu.empty() ? "" : ", ") + std::string(row.name);
    }
    for (const KernelRow& row : reference_kernels()) {
      if (row.op == op) reference = "yes";
    }
    const GradKind kind = grad_row(op).kind;
    text += "| " + std::string(op_info(op).name) + " | " +
            (kind == GradKind::kRule   ? "rule"
             : kind == GradKind::kNone ? "none"
                                       : "refused") +
            " | " + cpu + " | " + reference + " |\n";
  }
  return text;
}

}  // namespace

std::string ops_table() {
  return "# Operators\n\n"
         "Written by `bazel run //tests/docs:ops_table -- \"$PWD/docs/ops.md\"` from the tables in "
         "the code; a "
         "test fails when it is\nstale.\n\n"
         "## ONNX operators\n\n"
         "`none`: the operator has no derivative (or none by convention): what lies behind it gets "
         "no "
         "gradient. A form of an op\nthat cannot be done is refused with a reason when the model "
         "is "
         "specialized.\n\n" +
         onnx_table() +
         "\n## Ops of the IR\n\n"
         "What the operators above are lowered to. Every op runs on the reference kernels in "
         "float32 "
         "and float64; a CPU row\nthat does not support a node passes it on to the next.\n\n" +
         ir_table();
}

}  // namespace trainrt
