// What is done to gradients between backward() and the update.
#include <algorithm>
#include <cmath>

#include "runtime/train/optimizer_impl.h"
#include "runtime/train/option_check.h"

namespace trainrt {
namespace {

constexpr int64_t kParallel = 65536;  // elements

template <typename F>
void for_each_element(Tensor& grad, const F& change) {
  with_float_type(grad.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T* g = static_cast<T*>(grad.raw());
    const int64_t n = grad.size();
#pragma omp parallel for if (n > kParallel)
    for (int64_t i = 0; i < n; ++i) g[i] = change(g[i]);
  });
}

/// Those with a gradient, in the file's order.
std::pair<Session*, ParameterStates> with_gradient(const std::vector<Parameter>& params,
                                                   const char* where) {
  auto [session, states] = common_session(params, where);
  std::erase_if(states, [](const auto& p) { return !p->grad.defined(); });
  return {session, states};
}

void scale(const ParameterStates& states, double factor) {
  if (factor == 1) return;
  for (const auto& p : states) {
    for_each_element(p->grad, [&](auto g) { return g * static_cast<decltype(g)>(factor); });
  }
}

}  // namespace

double clip_grad_norm_(const std::vector<Parameter>& params, double max_norm) {
  check_above_zero(max_norm, "clip_grad_norm_: max_norm");
  const auto [session, states] = with_gradient(params, "clip_grad_norm_");
  if (states.empty()) return 0;
  UpdateSpec update;
  update.clip_norm = max_norm;
  const auto step = session->prepare_update(std::move(update), states);
  session->load_update(*step, states);
  session->run(*step);
  scale(states, step->plan->output("scale", OutputRole::kOutput).item());
  return step->plan->output("norm", OutputRole::kOutput).item();
}

void clip_grad_value_(const std::vector<Parameter>& params, double clip_value) {
  check_above_zero(clip_value, "clip_grad_value_: clip_value");
  for (const auto& p : with_gradient(params, "clip_grad_value_").second) {
    for_each_element(p->grad, [&](auto g) {
      const auto most = static_cast<decltype(g)>(clip_value);
      return g < -most ? -most : g > most ? most : g;
    });
  }
}

void scale_grad_(const std::vector<Parameter>& params, double factor) {
  check_usage(std::isfinite(factor), "scale_grad_: the factor must be a finite number");
  scale(with_gradient(params, "scale_grad_").second, factor);
}

}  // namespace trainrt
