// Functions of the caller that run at the borders of modules.
#ifndef TRAINRT_HOOKS_H_
#define TRAINRT_HOOKS_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "trainrt/tensor.h"
#include "trainrt/values.h"

namespace trainrt {

class Module;
struct ModuleOptions;

/// What a hook may return: new values in the order of those it may replace; undefined ones, and
/// those left out at the end, stay as they were. Types must be the same.
using HookResult = std::optional<std::vector<Tensor>>;

/// Any callable with these arguments that returns a HookResult, a list of tensors or nothing.
template <typename... Args>
class HookFunction {
 public:
  HookFunction() = default;
  template <typename F>
  requires std::invocable<F&, Args...> &&(!std::same_as<std::remove_cvref_t<F>, HookFunction>)
      HookFunction(F f) {  // NOLINT(google-explicit-constructor): callers pass lambdas
    if constexpr (std::is_void_v<std::invoke_result_t<F&, Args...>>) {
      call_ = [f = std::move(f)](Args... args) mutable -> HookResult {
        f(std::forward<Args>(args)...);
        return std::nullopt;
      };
    } else {
      call_ = std::move(f);
    }
  }
  explicit operator bool() const { return static_cast<bool>(call_); }
  HookResult operator()(Args... args) const { return call_(std::forward<Args>(args)...); }

 private:
  std::function<HookResult(Args...)> call_;
};

// Hooks get copies, which they may keep. A module that the graph calls several times calls its
// hooks each time. What a forward hook puts in the place of a value is a constant to the gradient:
// it flows to the value that was replaced, unchanged.

/// (module, args): before the module's nodes run. May replace args.
using ForwardPreHook = HookFunction<Module&, const Values&>;
/// (module, args, outputs): after they ran. May replace outputs.
using ForwardHook = HookFunction<Module&, const Values&, const Values&>;
/// (module, grad_outputs): when the gradients of all outputs are there; undefined where none flows.
/// May replace those that are there.
using BackwardPreHook = HookFunction<Module&, const Values&>;
/// (module, grad_inputs, grad_outputs): when the gradients of the inputs are there. May replace
/// grad_inputs. Inputs that need no gradient have undefined ones.
using BackwardHook = HookFunction<Module&, const Values&, const Values&>;
// with_kwargs: the arguments come by name as well.
using ForwardPreHookWithKwargs = HookFunction<Module&, const Values&, const TensorMap&>;
using ForwardHookWithKwargs = HookFunction<Module&, const Values&, const TensorMap&, const Values&>;

struct HookOptions {
  bool prepend = false;  // before the hooks that are there, instead of behind them
  /// Forward hooks: run also when the forward failed inside the module, then with no outputs.
  bool always_call = false;
};

/// Names and values in a stable order.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

/// Keys that load_state_dict(…, false) did not find or did not know.
struct LoadResult {
  std::vector<std::string> missing, unexpected;
};

/// (module, prefix): before state_dict() reads.
using StateDictPreHook = std::function<void(Module&, const std::string& prefix)>;
/// (module, values, prefix): may change what state_dict() returns.
using StateDictPostHook = std::function<void(Module&, StateDict&, const std::string& prefix)>;
/// (module, values, strict): may change what load_state_dict() reads.
using LoadStateDictPreHook = std::function<void(Module&, StateDict&, bool strict)>;
/// (module, result): may change the lists of keys; what is left in them is an error when strict.
using LoadStateDictPostHook = std::function<void(Module&, LoadResult&)>;

/// Removes the hook it was returned for. Copies are handles to the same hook; destroying one leaves
/// the hook in place.
class RemovableHandle {
 public:
  RemovableHandle() = default;
  explicit RemovableHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// Does nothing when the hook is gone already, or its module.
  void remove() {
    if (remove_) remove_();
  }

 private:
  std::function<void()> remove_;
};

}  // namespace trainrt

#endif  // TRAINRT_HOOKS_H_
