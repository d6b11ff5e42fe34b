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
  GpuContext* gpu = plan_.gpu() == nullptr ? nullptr : &plan_.gpu()->context();
  std::byte* base = gpu == nullptr ? arena_.data() : gpu->arena();
  std::byte* host_base = gpu == nullptr ? base : gpu->host_arena();
  auto address = [&](const Operand& o) {
    return o.address != nullptr ? o.address : (o.side == Side::kHost ? host_base : base) + o.offset;
  };
  size_t in = 0, out = 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const PlanStep& step = plan_.steps()[i];
    calls_[i] = {step.kernel.get(), {in_.data() + in, out_.data() + out, nullptr}};
    if (step.scratch.offset != kNoScratch) calls_[i].args.scratch = address(step.scratch);
    for (const Operand& o : step.in) in_[in++] = address(o);
    for (const Operand& o : step.out) out_[out++] = address(o);
    if (gpu == nullptr) continue;
    calls_[i].args.stream = &gpu->compute();
    calls_[i].args.status = gpu->status();
    calls_[i].args.step = plan_.first_step() + static_cast<int32_t>(i);
  }
  bound_to_ = base;
  bound_to_host_ = host_base;
  bound_ = true;
  ranges_.clear();
}

void Executor::run(size_t first, size_t last) {
  TRAINRT_CHECK(first <= last && last <= calls_.size(), "no such steps");
  size_t i = first;
  try {
    if (plan_.gpu() != nullptr) {
      run_on_gpu(first, last, i);
    } else {
      run_steps(first, last, i);
    }
  } catch (const Error& e) {
    if (i >= last) throw;
    throw Error(e.code(), describe(plan_.graph(), plan_.steps()[i].node) + ": " + e.what());
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kRuntime,
                describe(plan_.graph(), plan_.steps()[i].node) + ": " + e.what());
  }
}

void Executor::run_steps(size_t first, size_t last, size_t& i) {
  TRAINRT_CHECK(arena_.bytes() >= plan_.arena_bytes(), "the arena is smaller than the plan");
  if (!bound_ || bound_to_ != arena_.data()) bind();
  i = first;
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
}

void Executor::run_on_gpu(size_t first, size_t last, size_t& i) {
  GpuContext& gpu = plan_.gpu()->context();
  TRAINRT_CHECK(gpu.arena_bytes() >= plan_.arena_bytes(), "the arena is smaller than the plan");
  if (!bound_ || bound_to_ != gpu.arena() || bound_to_host_ != gpu.host_arena()) bind();
  gpu.state().to_device();
  plan_.gpu()->upload();
  plan_.note_changes(first, last);
  i = first;
  if (observer_ || nan_check_) {
    const auto start = Clock::now();
    for (; i < last; ++i) {
      const auto before = Clock::now();
      if (plan_.steps()[i].on_host) gpu.compute().synchronize();
      calls_[i].kernel->run(calls_[i].args);
      gpu.finish();
      if (observer_) observer_(i, ms_between(start, before), ms_between(before, Clock::now()));
      if (nan_check_) check_nan(i);
    }
    return;
  }
  Range& range = ranges_[{first, last}];
  if (range.recording == nullptr && plan_.on_one_side() && range.runs > 0 && first < last) {
    gpu.compute().begin_recording();
    try {
      give_to_gpu(first, last, i);
    } catch (...) {
      gpu.compute().end_recording();
      throw;
    }
    range.recording = gpu.compute().end_recording();
  }
  ++range.runs;
  if (range.recording != nullptr) {
    gpu.compute().run(*range.recording);
    i = last;
  } else {
    give_to_gpu(first, last, i);
  }
}

void Executor::give_to_gpu(size_t first, size_t last, size_t& i) {
  gpu::Stream& stream = plan_.gpu()->context().compute();
  for (i = first; i < last; ++i) {
    if (plan_.steps()[i].on_host) stream.synchronize();
    calls_[i].kernel->run(calls_[i].args);
  }
}

void Executor::check_nan(size_t i) const {
  const Graph& graph = plan_.graph();
  const Node& node = graph.node(plan_.steps()[i].node);
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    const TensorType& type = graph.type(node.outputs[k]);
    const void* data = calls_[i].args.out[k];
    Tensor copy;
    if (plan_.gpu() != nullptr && !plan_.steps()[i].on_host && is_float(type.dtype)) {
      copy = Tensor(type.dtype, type.shape);
      gpu::Stream& stream = plan_.gpu()->context().compute();
      if (plan_.steps()[i].out[k].side == Side::kDevice) {
        stream.copy_to_host(copy.raw(), data, copy.bytes());
        data = copy.raw();
      }
      stream.synchronize();
    }
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
