#include "runtime/session.h"
#include "trainrt/module.h"

namespace trainrt {
namespace {

ParameterState& get(const std::shared_ptr<ParameterState>& state) {
  if (state == nullptr) throw Error(ErrorCode::kUsage, "an empty Parameter");
  return *state;
}

}  // namespace

const std::string& Parameter::name() const { return get(state_).info.name; }
const std::string& Parameter::original_name() const { return get(state_).info.original; }
const std::string& Parameter::module() const { return get(state_).info.module; }
const std::string& Parameter::reason() const { return get(state_).info.reason; }
const Shape& Parameter::shape() const { return get(state_).stored.shape(); }
DType Parameter::dtype() const { return get(state_).stored.dtype(); }
int64_t Parameter::size() const { return get(state_).stored.size(); }
Tensor Parameter::value() const { return get(state_).value(); }
Tensor Parameter::grad() const { return get(state_).grad; }
// Values that are stored in 16 bits are computed with in float32.
DType Parameter::grad_dtype() const { return dtype_size(dtype()) == 2 ? DType::kFloat32 : dtype(); }
bool Parameter::requires_grad() const { return get(state_).requires_grad; }

void Parameter::set_grad(Tensor grad) {
  ParameterState& state = get(state_);
  const DType dtype = grad_dtype();
  if (grad.defined() && (grad.dtype() != dtype || grad.shape() != state.stored.shape())) {
    throw Error(ErrorCode::kInput, "gradient of " + state.info.name + ": expected " +
                                       to_string(TensorType{dtype, state.stored.shape()}) +
                                       ", given " +
                                       to_string(TensorType{grad.dtype(), grad.shape()}));
  }
  state.grad = std::move(grad);
}

Parameter& Parameter::requires_grad_(bool on) {
  ParameterState& state = get(state_);
  if (state.requires_grad != on) ++*state.version;
  state.requires_grad = on;
  return *this;
}

}  // namespace trainrt
