#include "graph/fused.h"

#include <algorithm>
#include <charconv>

#include "graph/infer.h"
#include "graph/text.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

using Kind = FusedOperand::Kind;

std::string to_string(const FusedOperand& o) {
  if (o.kind == Kind::kInput) return "$" + std::to_string(o.index);
  if (o.kind == Kind::kResult) return "%" + std::to_string(o.index);
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, o.number).ptr};
}

[[noreturn]] void fail(std::string_view text, const std::string& expected) {
  throw Error(ErrorCode::kUsage,
              "program of Fused: expected " + expected + ", found '" + std::string(text) + "'");
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// The text before the next `separator`, which is taken off with it.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return trimmed(part);
}

template <typename T>
T number(std::string_view text, const std::string& expected) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail(text, expected);
  return value;
}

FusedOperand parse_operand(std::string_view text) {
  if (text.starts_with('$')) {
    return {Kind::kInput, number<int32_t>(text.substr(1), "the number of an input"), 0};
  }
  if (text.starts_with('%')) {
    return {Kind::kResult, number<int32_t>(text.substr(1), "the number of a result"), 0};
  }
  return {Kind::kNumber, 0, number<double>(text, "an operand")};
}

FusedInstruction parse_instruction(std::string_view text) {
  const size_t open = text.find('('), close = text.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    fail(text, "Op(operands)");
  }
  FusedInstruction result;
  if (!parse_op(text.substr(0, open), &result.op)) fail(text, "a known op");
  std::string_view operands = text.substr(open + 1, close - open - 1);
  while (!operands.empty()) result.operands.push_back(parse_operand(take(operands, ',')));
  result.attrs = parse_attributes(result.op, text.substr(close + 1));
  return result;
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, "program of Fused: " + message);
}

}  // namespace

std::string print(const FusedProgram& program) {
  std::string text;
  for (const FusedInstruction& i : program.instructions) {
    text += std::string(op_info(i.op).name) + "(";
    for (size_t k = 0; k < i.operands.size(); ++k) {
      text += (k == 0 ? "" : ", ") + to_string(i.operands[k]);
    }
    text += ")";
    const std::string attrs = to_string(i.attrs);
    text += (attrs.empty() ? "" : " ") + attrs + "; ";
  }
  text += "return";
  for (size_t k = 0; k < program.results.size(); ++k) {
    text += (k == 0 ? " %" : ", %") + std::to_string(program.results[k]);
  }
  return text;
}

FusedProgram parse_fused(std::string_view text) {
  constexpr std::string_view kReturn = "return ";
  FusedProgram program;
  while (!text.empty()) {
    std::string_view part = take(text, ';');
    if (!part.starts_with(kReturn)) {
      program.instructions.push_back(parse_instruction(part));
      continue;
    }
    part.remove_prefix(kReturn.size());
    while (!part.empty()) {
      const FusedOperand o = parse_operand(take(part, ','));
      if (o.kind != Kind::kResult) fail(part, "results");
      program.results.push_back(o.index);
    }
    if (!text.empty()) fail(text, "the end behind the results");
    return program;
  }
  fail(text, "'return %i, …'");
}

FusedTypes fused_types(const FusedProgram& program, std::span<const TensorType> inputs) {
  FusedTypes types;
  const auto first = std::find_if(inputs.begin(), inputs.end(),
                                  [](const TensorType& t) { return is_float(t.dtype); });
  if (first != inputs.end()) types.number = computed(*first).dtype;
  for (const TensorType& t : inputs) types.shape = broadcast_shapes(types.shape, t.shape);
  std::vector<TensorType> in;
  for (const FusedInstruction& i : program.instructions) {
    in.clear();
    const bool sum = i.op == Op::kReduceSum;
    if (!sum && (!is_elementwise(i.op) || i.op == Op::kFused)) {
      refuse(std::string(op_info(i.op).name) + " is no elementwise op");
    }
    for (const FusedOperand& o : i.operands) {
      const auto index = static_cast<size_t>(o.index);
      if (o.kind == Kind::kNumber) {
        in.push_back({types.number, {}});
      } else if (o.kind == Kind::kInput) {
        if (index >= inputs.size()) refuse("there is no operand " + to_string(o));
        in.push_back({computed(inputs[index]).dtype, types.shape});
      } else {
        if (index >= types.instructions.size()) refuse(to_string(o) + " is no earlier result");
        if (program.instructions[index].op == Op::kReduceSum) {
          refuse("the sum " + to_string(o) + " is an operand");
        }
        in.push_back(types.instructions[index]);
      }
    }
    const std::vector<TensorType> out = infer_types(i.op, in, i.attrs);
    if (!sum && out[0].shape != types.shape) {
      refuse(std::string(op_info(i.op).name) + " has no operand of the iteration space");
    }
    types.instructions.push_back(out[0]);
  }
  std::vector<int32_t> results = program.results;
  std::sort(results.begin(), results.end());
  const bool distinct = std::adjacent_find(results.begin(), results.end()) == results.end();
  if (results.empty() || !distinct || results.front() < 0 ||
      static_cast<size_t>(results.back()) >= program.instructions.size()) {
    refuse("the results are not distinct instructions");
  }
  return types;
}

}  // namespace trainrt
