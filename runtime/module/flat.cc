#include "trainrt/flat.h"

#include <string>

namespace trainrt {
namespace {

/// Calls f(parameter, view) for every parameter with a view of its part of `values`.
template <typename T, typename F>
void for_each_part(const Module& module, std::span<T> values, const F& f) {
  const int64_t size = flat_size(module);
  if (static_cast<int64_t>(values.size()) != size) {
    throw Error(ErrorCode::kInput, "the parameters have " + std::to_string(size) +
                                       " elements together, given " +
                                       std::to_string(values.size()));
  }
  using Number = std::remove_const_t<T>;
  // The views are written to only where T is not const.
  auto* at = const_cast<Number*>(values.data());
  for (Parameter& p : module.parameters()) {
    f(p, Tensor::view(at, dtype_of<Number>, p.shape()));
    at += p.size();
  }
}

void copy(Tensor to, const Tensor& from) {
  to.copy_from(from.dtype() == to.dtype() ? from : from.to(to.dtype()));
}

template <typename T>
void get_values(const Module& module, std::span<T> values) {
  for_each_part(module, values, [](Parameter& p, const Tensor& part) { copy(part, p.value()); });
}

template <typename T>
void set_values(const Module& module, std::span<const T> values) {
  for_each_part(module, values, [](Parameter& p, const Tensor& part) { copy(p.value(), part); });
}

template <typename T>
void get_grads(const Module& module, std::span<T> values) {
  for_each_part(module, values, [](Parameter& p, Tensor part) {
    if (const Tensor grad = p.grad(); grad.defined()) {
      copy(part, grad);
    } else {
      part.fill(0);
    }
  });
}

template <typename T>
void set_grads(const Module& module, std::span<const T> values) {
  for_each_part(module, values, [](Parameter& p, const Tensor& part) {
    if (p.requires_grad()) p.set_grad(part.to(p.grad_dtype()));
  });
}

}  // namespace

int64_t flat_size(const Module& module) {
  int64_t size = 0;
  for (const Parameter& p : module.parameters()) size += p.size();
  return size;
}

void get_flat(const Module& module, std::span<float> values) { get_values(module, values); }
void get_flat(const Module& module, std::span<double> values) { get_values(module, values); }
void set_flat(Module& module, std::span<const float> values) { set_values(module, values); }
void set_flat(Module& module, std::span<const double> values) { set_values(module, values); }
void get_flat_grad(const Module& module, std::span<float> values) { get_grads(module, values); }
void get_flat_grad(const Module& module, std::span<double> values) { get_grads(module, values); }
void set_flat_grad(Module& module, std::span<const float> values) { set_grads(module, values); }
void set_flat_grad(Module& module, std::span<const double> values) { set_grads(module, values); }

}  // namespace trainrt
