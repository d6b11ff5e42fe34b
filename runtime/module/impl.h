// What the handles of one module tree share.
#ifndef TRAINRT_RUNTIME_MODULE_IMPL_H_
#define TRAINRT_RUNTIME_MODULE_IMPL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/module/hooks.h"
#include "runtime/session.h"
#include "trainrt/module.h"

namespace trainrt {

struct Module::Impl : std::enable_shared_from_this<Module::Impl> {
  std::shared_ptr<Session> session;
  std::vector<PortInfo> inputs, outputs;
  bool training = true;
  bool input_grads = false;
  std::vector<std::string> loss_texts;  // of the session's attached losses
  // The last forward in train mode.
  std::shared_ptr<CompiledStep> step;
  uint64_t run = 0;
  bool went_back = false;
  uint64_t calls = 0, call_of_step = 0;
  TensorMap input_gradients;

  // The tree: places in the model's list of modules, by path.
  std::map<std::string, size_t> places;
  std::map<std::string, std::vector<std::string>> children;

  std::shared_ptr<HookTable> hooks = std::make_shared<HookTable>();
  std::unique_ptr<HookBorders> borders;

  explicit Impl(std::shared_ptr<Session> session);
  static std::shared_ptr<Impl> make(OnnxModel model, const ModuleOptions& options);

  const std::vector<ModuleInfo>& tree() const { return session->model().modules(); }
  /// Reads the session's model: ports and tree.
  void look_at_model();
  Module handle(const std::string& path) { return Module(shared_from_this(), path); }
  template <typename F>
  RemovableHandle add_hook(const std::string& path, std::vector<HookEntry<F>> ModuleHooks::*kind,
                           F hook, HookOptions options);
  /// After hooks were added or removed.
  void hooks_changed();
  void warn(const std::string& text) const;

  /// Mode of a module: that of the nearest one above it that was set.
  bool mode_of(const std::string& path) const;
  void set_mode(const std::string& path, bool training);

  StepSpec forward_spec(const Batch& batch) const;
  void check_backward() const;
  void go_back();
};

/// Dotted paths; either may be empty.
std::string join(const std::string& a, const std::string& b);
/// `path` as seen from `module`, when it lies there.
std::string relative(const std::string& path, const std::string& module);
bool lies_in(const std::string& path, const std::string& module);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_MODULE_IMPL_H_
