#include <algorithm>
#include <chrono>

#include "runtime/cost.h"
#include "runtime/train/trainer_impl.h"

namespace trainrt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 2, kFewest = 3, kProfiled = 5;
constexpr int kSubmitted = 10;  // steps on a GPU between looks at the loss

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

NodeTiming describe_step(const Plan& plan, size_t i) {
  constexpr const char* kSections[] = {"forward", "backward", "update"};
  const Graph& graph = plan.graph();
  const Node& node = graph.node(plan.steps()[i].node);
  NodeTiming t;
  t.name = graph.source(node).node;
  t.op = op_info(node.op).name;
  t.kernel = plan.kernel_name(i);
  t.section = kSections[static_cast<size_t>(node.section)];
  for (ValueId v : node.inputs) t.operands += to_string(graph.type(v)) + " ";
  t.operands += "->";
  for (ValueId v : node.outputs) t.operands += " " + to_string(graph.type(v));
  t.flops = node_flops(graph, node);
  t.bytes = static_cast<int64_t>(node_bytes(graph, node));
  return t;
}

// Takes the observer off again however the run ends.
class Observed {
 public:
  Observed(Executor& executor, Executor::Observer observer) : executor_(executor) {
    executor.set_observer(std::move(observer));
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;
  ~Observed() { executor_.set_observer({}); }

 private:
  Executor& executor_;
};

}  // namespace

BenchResult Trainer::bench(const TensorMap& given, double seconds) {
  Batch batch = impl_->make_batch(given);
  const auto step = impl_->prepare(batch);
  const Plan& plan = *step->plan;
  double section_ms[3] = {};
  std::vector<size_t> section;
  for (const PlanStep& s : plan.steps()) {
    section.push_back(static_cast<size_t>(plan.graph().node(s.node).section));
  }
  BenchResult result;
  for (int i = 0; i < kWarmUps; ++i) impl_->run_step(*step, batch);
  if (plan.gpu() != nullptr) {
    // Looking at each node waits for it: whole steps are timed without.
    std::vector<double> pieces;
    for (const auto start = Clock::now();
         result.steps < kFewest || ms_since(start) < seconds * 1e3;) {
      const auto before = Clock::now();
      for (int i = 0; i < kSubmitted; ++i) impl_->run_step(*step, batch, false);
      result.loss = take_losses().back();
      pieces.push_back(ms_since(before) / kSubmitted);
      result.steps += kSubmitted;
    }
    result.step_ms = median(pieces);
    seconds = 0;
  }
  const int64_t done_before = result.steps;
  const Observed observed(*step->executor,
                          [&](size_t i, double, double ms) { section_ms[section[i]] += ms; });
  std::vector<double> total, parts[3];
  for (const auto start = Clock::now();
       result.steps - done_before < kFewest || ms_since(start) < seconds * 1e3;) {
    std::fill(std::begin(section_ms), std::end(section_ms), 0.0);
    const auto before = Clock::now();
    const StepResult done = impl_->run_step(*step, batch);
    total.push_back(ms_since(before));
    for (size_t s = 0; s < 3; ++s) {
      // With accumulation only every so-many batches has an update.
      if (s < 2 || done.updated) parts[s].push_back(section_ms[s]);
    }
    result.loss = done.loss;
    ++result.steps;
  }
  if (plan.gpu() == nullptr) result.step_ms = median(total);
  result.forward_ms = median(parts[0]);
  result.backward_ms = median(parts[1]);
  result.update_ms = median(parts[2]);
  result.plan = impl_->stats(*step);
  return result;
}

StepResult Trainer::step(const TensorMap& given, std::vector<NodeTiming>& timings) {
  Batch batch = impl_->make_batch(given);
  const auto step = impl_->prepare(batch);
  const Plan& plan = *step->plan;
  timings.clear();
  timings.reserve(plan.steps().size());
  const Observed observed(*step->executor, [&](size_t i, double start_ms, double ms) {
    timings.push_back(describe_step(plan, i));
    timings.back().start_ms = start_ms;
    timings.back().ms = ms;
  });
  return impl_->run_step(*step, batch);
}

std::vector<NodeTiming> Trainer::profile(const TensorMap& given) {
  for (int i = 0; i < kWarmUps; ++i) step(given);
  std::vector<NodeTiming> timings;
  std::vector<std::vector<double>> times;
  for (int i = 0; i < kProfiled; ++i) {
    step(given, timings);
    times.resize(timings.size());
    for (size_t n = 0; n < timings.size(); ++n) times[n].push_back(timings[n].ms);
  }
  double start = 0;
  for (size_t n = 0; n < timings.size(); ++n) {
    timings[n].start_ms = start;
    timings[n].ms = median(times[n]);
    start += timings[n].ms;
  }
  return timings;
}

}  // namespace trainrt
