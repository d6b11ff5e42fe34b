#include "frontend/lower_delegate.h"

namespace trainrt::lowering {

Delegate::Delegate(LowerContext& outer, std::string op_type, int64_t opset_version,
                   std::vector<Var> inputs)
    : LowerContext(outer.b, outer.options, opset_version, std::move(op_type)),
      outer_(outer),
      inputs_(std::move(inputs)) {
  while (!inputs_.empty() && !inputs_.back()) inputs_.pop_back();
}

Var Delegate::run() {
  const LoweringRow* row = find_lowering("", op, opset);
  if (row == nullptr) refuse("no_lowering", "no lowering of " + op);
  row->lower(*this);
  if (!result(0)) refuse("no_lowering", op + " gives no output here");
  return result(0);
}

Tensor Delegate::constant(size_t i) const {
  return outer_.constant_of(need(i), "input " + std::to_string(i) + " of " + op);
}

template <typename T>
const T* Delegate::own(std::string_view name) const {
  const auto it = attrs_.find(name);
  if (it == attrs_.end()) {
    check_visible(name);
    return nullptr;
  }
  if (const T* value = std::get_if<T>(&it->second)) return value;
  invalid("attribute " + std::string(name) + " has the wrong type");
}

void Delegate::check_visible(std::string_view name) const {
  if (own_only_) invalid("attribute " + std::string(name) + " is missing");
}

bool Delegate::has_attr(std::string_view name) const {
  return attrs_.contains(name) || (!own_only_ && outer_.has_attr(name));
}
int64_t Delegate::attr_int(std::string_view name) const {
  const auto* value = own<int64_t>(name);
  return value != nullptr ? *value : outer_.attr_int(name);
}
double Delegate::attr_float(std::string_view name) const {
  const auto* value = own<double>(name);
  return value != nullptr ? *value : outer_.attr_float(name);
}
std::string Delegate::attr_string(std::string_view name) const {
  const auto* value = own<std::string>(name);
  return value != nullptr ? *value : outer_.attr_string(name);
}
std::vector<int64_t> Delegate::attr_ints(std::string_view name) const {
  const auto* value = own<std::vector<int64_t>>(name);
  return value != nullptr ? *value : outer_.attr_ints(name);
}
std::vector<double> Delegate::attr_floats(std::string_view name) const {
  check_visible(name);
  return outer_.attr_floats(name);
}
std::vector<std::string> Delegate::attr_strings(std::string_view name) const {
  check_visible(name);
  return outer_.attr_strings(name);
}
Tensor Delegate::attr_tensor(std::string_view name) const {
  check_visible(name);
  return outer_.attr_tensor(name);
}

void Delegate::set(size_t i, Var value) {
  if (results_.size() <= i) results_.resize(i + 1);
  results_[i] = value;
}

std::vector<Var> inputs_of(const LowerContext& c) {
  std::vector<Var> inputs;
  for (size_t i = 0; i < c.input_count(); ++i) inputs.push_back(c.in(i));
  return inputs;
}

void lower_as(LowerContext& c, std::string op, int64_t opset) {
  Delegate inner(c, std::move(op), opset, inputs_of(c));
  inner.run();
  for (size_t i = 0; i < c.output_count(); ++i) {
    if (inner.result(i)) c.set(i, inner.result(i));
  }
}

}  // namespace trainrt::lowering
