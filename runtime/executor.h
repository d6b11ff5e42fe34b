// Runs a plan.
#ifndef TRAINRT_RUNTIME_EXECUTOR_H_
#define TRAINRT_RUNTIME_EXECUTOR_H_

#include <functional>
#include <vector>

#include "runtime/arena.h"
#include "runtime/plan.h"

namespace trainrt {

/// Neither allocates nor looks anything up while running, unless the arena has moved since the last
/// run. One thread at a time.
class Executor {
 public:
  /// Both must outlive the executor.
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

  const Plan& plan_;
  Arena& arena_;
  std::byte* bound_to_ = nullptr;
  bool bound_ = false;
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
