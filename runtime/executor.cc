#include "runtime/executor.h"

#include <chrono>

#include "trainrt/error.h"

namespace trainrt {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

template <typename T>
bool has_nan(const void* data, int64_t n) {
  const T* x = static_cast<const T*>(data);
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += x[i] != x[i];
  return count > 0;
}

}  // namespace

Executor::Executor(const Plan& plan, Arena& arena) : plan_(plan), arena_(arena) {
  size_t inputs = 0, outputs = 0;
  for (const PlanStep& step : plan.steps()) {
    inputs += step.in.size();
    outputs += step.out.size();
  }
  in_.resize(inputs);
  out_.resize(outputs);
  calls_.resize(plan.steps().size());
}

void Executor::bind() {
  std::byte* base = arena_.data();
  auto address = [&](const Operand& o) {
    return o.address != nullptr ? o.address : base + o.offset;
  };
  size_t in = 0, out = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const PlanStep& step = plan_.steps()[i];
    calls_[i] = {step.kernel.get(), {in_.data() + in, out_.data() + out, nullptr}};
    if (step.scratch.offset != kNoScratch) calls_[i].args.scratch = base + step.scratch.offset;
    for (const Operand& o : step.in) in_[in++] = address(o);
    for (const Operand& o : step.out) out_[out++] = address(o);
  }
  bound_to_ = base;
  bound_ = true;
}

void Executor::run(size_t first, size_t last) {
  TRAINRT_CHECK(arena_.bytes() >= plan_.arena_bytes(), "the arena is smaller than the plan");
  TRAINRT_CHECK(first <= last && last <= calls_.size(), "no such steps");
  if (!bound_ || bound_to_ != arena_.data()) bind();
  size_t i = first;
  try {
    if (!observer_ && !nan_check_) {
      for (; i < last; ++i) calls_[i].kernel->run(calls_[i].args);
      return;
    }
    const auto start = Clock::now();
    for (; i < last; ++i) {
      const auto before = Clock::now();
      calls_[i].kernel->run(calls_[i].args);
      if (observer_) observer_(i, ms_between(start, before), ms_between(before, Clock::now()));
      if (nan_check_) check_nan(i);
    }
  } catch (const Error& e) {
    throw Error(e.code(), describe(plan_.graph(), plan_.steps()[i].node) + ": " + e.what());
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kRuntime,
                describe(plan_.graph(), plan_.steps()[i].node) + ": " + e.what());
  }
}

void Executor::check_nan(size_t i) const {
  const Graph& graph = plan_.graph();
  const Node& node = graph.node(plan_.steps()[i].node);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const TensorType& type = graph.type(node.outputs[k]);
    const void* data = calls_[i].args.out[k];
    const bool nan = type.dtype == DType::kFloat32   ? has_nan<float>(data, type.size())
                     : type.dtype == DType::kFloat64 ? has_nan<double>(data, type.size())
                                                     : false;
    if (nan) {
      throw Error(ErrorCode::kRuntime, "output " + std::to_string(k) + " (" + to_string(type) +
                                           ") is the first in this step to have NaN elements");
    }
  }
}

}  // namespace trainrt
