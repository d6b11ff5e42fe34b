#include "frontend/lower.h"

#include <algorithm>
#include <map>

#include "frontend/onnx_dtype.h"

namespace trainrt {
namespace {

using Rows = std::vector<const LoweringRow*>;  // of one op, by opset

std::map<std::pair<std::string_view, std::string_view>, Rows> make_index() {
  std::map<std::pair<std::string_view, std::string_view>, Rows> index;
  for (std::span<const LoweringRow> list : lowering_lists()) {
    for (const LoweringRow& row : list) index[{row.domain, row.op}].push_back(&row);
  }
  for (auto& [key, rows] : index) {
    std::stable_sort(rows.begin(), rows.end(), [](const LoweringRow* a, const LoweringRow* b) {
      return a->since < b->since;
    });
  }
  return index;
}

const Rows* rows_of(std::string_view domain, std::string_view op) {
  static const auto index = make_index();
  const auto it = index.find({domain == "ai.onnx" ? std::string_view() : domain, op});
  return it == index.end() ? nullptr : &it->second;
}

}  // namespace

std::vector<std::span<const LoweringRow>> lowering_lists() {
  return {elementwise_lowerings(), shape_lowerings(),        indexing_lowerings(),
          reduction_lowerings(),   linear_lowerings(),       conv_lowerings(),
          norm_lowerings(),        random_lowerings(),       recurrent_lowerings(),
          attention_lowerings(),   control_flow_lowerings(), sequence_lowerings(),
          signal_lowerings(),      contrib_lowerings(),      flex_attention_lowerings(),
          legacy_lowerings()};
}

bool flows_through(GradInputs inputs, size_t i) {
  switch (inputs) {
    case GradInputs::kAll:
      return true;
    case GradInputs::kNone:
      return false;
    case GradInputs::kFirst:
      return i == 0;
    case GradInputs::kFirstTwo:
      return i < 2;
    case GradInputs::kFirstThree:
      return i < 3;
    case GradInputs::kSecond:
      return i == 1;
    case GradInputs::kAllButFirst:
      return i > 0;
  }
  return false;
}

const LoweringRow* find_lowering(std::string_view domain, std::string_view op, int64_t opset) {
  const LoweringRow* best = nullptr;
  if (const Rows* rows = rows_of(domain, op)) {
    for (const LoweringRow* row : *rows) {
      if (row->since <= opset) best = row;
    }
  }
  return best;
}

std::optional<int64_t> oldest_lowering(std::string_view domain, std::string_view op) {
  const Rows* rows = rows_of(domain, op);
  if (rows == nullptr) return std::nullopt;
  return rows->front()->since;
}

Var LowerContext::need(size_t i) const {
  const Var v = in(i);
  if (!v) invalid("input " + std::to_string(i) + " is missing");
  return v;
}

NodeValue LowerContext::need_value(size_t i) const {
  NodeValue v = value(i);
  if (is_absent(v)) invalid("input " + std::to_string(i) + " is missing");
  return v;
}

Sequence LowerContext::sequence(size_t i) const {
  const NodeValue v = need_value(i);
  if (const Sequence* list = std::get_if<Sequence>(&v)) return *list;
  invalid("input " + std::to_string(i) + " is no sequence");
}

std::vector<Var> LowerContext::tensor_subgraph(std::string_view attr, std::span<const Var> inputs) {
  std::vector<Var> tensors;
  for (const NodeValue& v : subgraph(attr, std::vector<NodeValue>(inputs.begin(), inputs.end()))) {
    tensors.push_back(tensor_of(v));
    if (!tensors.back()) invalid("an output of " + std::string(attr) + " is no tensor");
  }
  return tensors;
}

std::vector<int64_t> LowerContext::ints(size_t i) const {
  const Tensor t = constant(i);
  if (is_float(t.dtype())) {
    invalid("input " + std::to_string(i) + " holds integers, given " +
            std::string(dtype_name(t.dtype())));
  }
  return t.to_ints();
}

double LowerContext::number(size_t i) const {
  const Tensor t = constant(i);
  if (t.size() != 1) {
    invalid("input " + std::to_string(i) + " is a single number, given shape " +
            to_string(t.shape()));
  }
  return t.item();
}

DType LowerContext::attr_dtype(std::string_view name) const {
  const int64_t type = attr_int(name);
  DType dtype;
  if (!dtype_from_onnx(type, &dtype)) {
    refuse("no_lowering", "attribute " + std::string(name) + " asks for " + onnx_type_name(type) +
                              ", which trainrt does not compute with");
  }
  return is_float(dtype) ? working : dtype;
}

int64_t LowerContext::axis(int64_t a, int64_t rank) const {
  if (a < -rank || a >= rank) {
    invalid("axis " + std::to_string(a) + " is outside a tensor of rank " + std::to_string(rank));
  }
  return a < 0 ? a + rank : a;
}

std::vector<int64_t> LowerContext::axes(std::vector<int64_t> list, int64_t rank) const {
  for (int64_t& a : list) a = axis(a, rank);
  std::sort(list.begin(), list.end());
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) {
    invalid("axes " + to_string(list) + " name one axis twice");
  }
  return list;
}

}  // namespace trainrt
