// Hooks of a module tree, and the nodes by which a graph calls them.
#ifndef TRAINRT_RUNTIME_MODULE_HOOKS_H_
#define TRAINRT_RUNTIME_MODULE_HOOKS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx_model.h"
#include "graph/call.h"
#include "trainrt/module.h"

namespace trainrt {

template <typename F>
struct HookEntry {
  uint64_t id;
  F call;
  bool always = false;
};

/// Of one module, in the order of their calls.
struct ModuleHooks {
  std::vector<HookEntry<ForwardPreHookWithKwargs>> forward_pre;
  std::vector<HookEntry<ForwardHookWithKwargs>> forward;
  std::vector<HookEntry<BackwardPreHook>> backward_pre;
  std::vector<HookEntry<BackwardHook>> backward;
  std::vector<HookEntry<StateDictPreHook>> state_pre;
  std::vector<HookEntry<StateDictPostHook>> state_post;
  std::vector<HookEntry<LoadStateDictPreHook>> load_pre;
  std::vector<HookEntry<LoadStateDictPostHook>> load_post;

  bool in_graph() const {
    return !forward_pre.empty() || !forward.empty() || !backward_pre.empty() || !backward.empty();
  }
};

/// What the nodes of a graph reach: they may outlive the module.
struct HookTable {
  std::map<std::string, ModuleHooks> modules;
  /// A handle to a module of the tree; the tree may be gone.
  std::function<std::optional<Module>(const std::string& path)> module_at;
  uint64_t next_id = 0;
  bool running = false;  // a hook is being called

  /// Calls of modules that were entered and not left.
  struct Call {
    std::string path;
    Values args;
    std::vector<uint64_t> called;  // forward hooks that ran
  };
  std::vector<Call> calls;

  /// The hooks of a kind as they are now: one of them may change the list.
  template <typename F>
  std::vector<HookEntry<F>> now(const std::string& path,
                                std::vector<HookEntry<F>> ModuleHooks::*kind) const {
    const auto found = modules.find(path);
    return found == modules.end() ? std::vector<HookEntry<F>>() : found->second.*kind;
  }
  /// Calls f(module, hook) for each of them, marked as running; nothing when the tree is gone.
  template <typename F, typename Call>
  void run(const std::string& path, std::vector<HookEntry<F>> ModuleHooks::*kind, const Call& f) {
    const auto hooks = now(path, kind);
    if (hooks.empty()) return;
    std::optional<Module> module = module_at(path);
    if (!module) return;
    const Running guard(*this);
    for (const auto& hook : hooks) f(*module, hook);
  }

  /// After a failed forward: the hooks with always_call that did not run, innermost module first.
  void unwind();

 private:
  struct Running {
    explicit Running(HookTable& owner) : table(owner) { table.running = true; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { table.running = false; }
    HookTable& table;
  };
};

/// Puts Hook nodes at the borders of the modules that have hooks.
class HookBorders final : public ModuleBorders {
 public:
  explicit HookBorders(std::shared_ptr<HookTable> table) : table_(std::move(table)) {}

  /// Part of the keys of plans; empty: there are no hooks that a graph must call.
  std::string key() const;

  void begin() override;
  const std::vector<std::string>& modules() const override { return paths_; }
  void enter(Builder& b, const std::string& module, const std::vector<std::string>& names,
             std::vector<Var>& inputs) override;
  void leave(Builder& b, const std::string& module, const std::vector<std::string>& names,
             std::vector<Var>& outputs) override;

 private:
  struct Call;
  std::shared_ptr<HookTable> table_;
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<Call>> open_;
};

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_MODULE_HOOKS_H_
