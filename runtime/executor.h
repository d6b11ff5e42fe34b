// Runs a plan.
#ifndef TRAINRT_RUNTIME_EXECUTOR_H_
#define TRAINRT_RUNTIME_EXECUTOR_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/arena.h"
#include "runtime/plan.h"

namespace trainrt {

/// Neither allocates nor looks anything up while running, unless the arena has moved since the last
/// run. One thread at a time.
///
/// A plan for a GPU runs behind the caller's back: run() gives the work to the context's stream,
/// and what reads its results waits (Plan::output). Steps that do without the host are recorded in
/// their second run and are one piece of work from then on. With an observer or the check for NaN
/// every step is waited for.
class Executor {
 public:
  /// Both must outlive the executor. The arena is not used by a plan for a GPU, whose context has
  /// its own.
  Executor(const Plan& plan, Arena& arena);

  /// Called after each step with its index and the time it took.
  using Observer = std::function<void(size_t step, double start_ms, double ms)>;
  /// An empty observer costs nothing.
  void set_observer(Observer observer) { observer_ = std::move(observer); }
  /// Stop at the first step that writes NaN (masks hold infinities rightly).
  void set_nan_check(bool on) { nan_check_ = on; }

  /// Runs steps [first, last). A failure throws Error(kRuntime) that names the node.
  void run(size_t first, size_t last);
  void run() { run(0, plan_.steps().size()); }

 private:
  void bind();
  void check_nan(size_t step) const;
  void run_steps(size_t first, size_t last, size_t& at);
  void run_on_gpu(size_t first, size_t last, size_t& at);
  void give_to_gpu(size_t first, size_t last, size_t& at);

  const Plan& plan_;
  Arena& arena_;
  const std::byte* bound_to_ = nullptr;
  const std::byte* bound_to_host_ = nullptr;  // of a plan for a GPU
  bool bound_ = false;
  /// By range of steps: how often it ran since the last bind(), and what was recorded.
  struct Range {
    int runs = 0;
    std::unique_ptr<gpu::Recording> recording;
  };
  std::map<std::pair<size_t, size_t>, Range> ranges_;
  struct Call {
    const Kernel* kernel;
    KernelArgs args;
  };
  std::vector<const void*> in_;  // operands of all steps, one after the other
  std::vector<void*> out_;
  std::vector<Call> calls_;
  Observer observer_;
  bool nan_check_ = false;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_EXECUTOR_H_
