// Parameters, buffers and hooks of a module by name.
#include <algorithm>

#include "runtime/module/impl.h"
#include "runtime/module/names.h"

namespace trainrt {
namespace {

constexpr char kRegistered[] = "registered by the program";

bool owns(const std::string& module, const std::string& owner, bool recurse) {
  return recurse ? lies_in(owner, module) : owner == module;
}

[[noreturn]] void no_such(const char* what, const std::string& name,
                          const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  throw Error(ErrorCode::kUsage, std::string("there is no ") + what + " '" + name + "'" +
                                     (nearest.empty() ? "" : "; the nearest is '" + nearest + "'"));
}

void check_new_name(const Session& session, const std::string& name, const std::string& full) {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw Error(ErrorCode::kUsage,
                "'" + name + "' is no name: it must not be empty, and dots " + "separate modules");
  }
  if (session.find_parameter(full) != nullptr || session.buffers().contains(full)) {
    throw Error(ErrorCode::kUsage, "'" + full + "' exists already");
  }
}

void check_value(const std::string& full, const Tensor& value) {
  if (value.defined() && is_float(value.dtype())) return;
  throw Error(ErrorCode::kInput,
              "'" + full + "': expected a floating tensor, given " +
                  (value.defined() ? std::string(dtype_name(value.dtype())) : "an undefined one"));
}

}  // namespace

std::vector<std::pair<std::string, Parameter>> Module::named_parameters(const std::string& prefix,
                                                                        bool recurse, bool) const {
  std::vector<std::pair<std::string, Parameter>> list;
  for (const auto& state : impl_->session->parameters()) {
    if (!owns(path_, state->info.module, recurse)) continue;
    list.emplace_back(join(prefix, relative(state->info.name, path_)), Parameter(state));
  }
  return list;
}

std::vector<Parameter> Module::parameters(bool recurse) const {
  std::vector<Parameter> list;
  for (auto& [name, parameter] : named_parameters("", recurse)) list.push_back(parameter);
  return list;
}

Parameter Module::get_parameter(const std::string& name) const {
  for (const std::string& full : {join(path_, name), name}) {
    const auto state = impl_->session->find_parameter(full);
    if (state != nullptr && lies_in(state->info.module, path_)) return Parameter(state);
  }
  std::vector<std::string> known;
  for (const auto& [own, parameter] : named_parameters()) {
    known.push_back(own);
    known.push_back(relative(parameter.original_name(), path_));
  }
  no_such("parameter", name, known);
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers(const std::string& prefix,
                                                                  bool recurse, bool) const {
  std::vector<std::pair<std::string, Tensor>> list;
  const Store& store = impl_->session->buffers();
  for (size_t i = 0; i < store.size(); ++i) {
    const std::string& name = store.names()[i];
    if (!owns(path_, impl_->session->owner_of(name), recurse)) continue;
    list.emplace_back(join(prefix, relative(name, path_)), store.at(i));
  }
  return list;
}

std::vector<Tensor> Module::buffers(bool recurse) const {
  std::vector<Tensor> list;
  for (auto& [name, buffer] : named_buffers("", recurse)) list.push_back(buffer);
  return list;
}

Tensor Module::get_buffer(const std::string& name) const {
  std::vector<std::string> known;
  for (auto& [own, buffer] : named_buffers()) {
    if (own == name || join(path_, own) == name) return buffer;
    known.push_back(own);
  }
  no_such("buffer", name, known);
}

Tensor Module::register_buffer(const std::string& name, const Tensor& value, bool persistent) {
  Session& session = *impl_->session;
  const std::string full = join(path_, name);
  check_new_name(session, name, full);
  check_value(full, value);
  if (!persistent) session.set_transient(full);
  return session.add_buffer(full, value);
}

Parameter Module::register_parameter(const std::string& name, const Tensor& value) {
  const std::string full = join(path_, name);
  check_new_name(*impl_->session, name, full);
  check_value(full, value);
  WeightInfo info;
  info.name = info.original = full;
  info.module = path_;
  info.dtype = value.dtype();
  info.shape = value.shape();
  info.reason = kRegistered;
  return Parameter(impl_->session->add_parameter(info, value));
}

template <typename F>
RemovableHandle Module::Impl::add_hook(const std::string& path,
                                       std::vector<HookEntry<F>> ModuleHooks::*kind, F hook,
                                       HookOptions options) {
  const uint64_t id = ++hooks->next_id;
  auto& list = hooks->modules[path].*kind;
  list.insert(options.prepend ? list.begin() : list.end(),
              {id, std::move(hook), options.always_call});
  hooks_changed();
  return RemovableHandle([weak = weak_from_this(), path, kind, id] {
    const auto impl = weak.lock();
    if (impl == nullptr) return;
    std::erase_if(impl->hooks->modules[path].*kind, [&](const auto& e) { return e.id == id; });
    impl->hooks_changed();
  });
}

RemovableHandle Module::register_forward_pre_hook(ForwardPreHookWithKwargs hook,
                                                  HookOptions options) {
  return impl_->add_hook(path_, &ModuleHooks::forward_pre, std::move(hook), options);
}

RemovableHandle Module::register_forward_pre_hook(ForwardPreHook hook, HookOptions options) {
  return register_forward_pre_hook(
      ForwardPreHookWithKwargs(
          [hook = std::move(hook)](Module& m, const Values& args, const TensorMap&) {
            return hook(m, args);
          }),
      options);
}

RemovableHandle Module::register_forward_hook(ForwardHookWithKwargs hook, HookOptions options) {
  return impl_->add_hook(path_, &ModuleHooks::forward, std::move(hook), options);
}

RemovableHandle Module::register_forward_hook(ForwardHook hook, HookOptions options) {
  return register_forward_hook(
      ForwardHookWithKwargs(
          [hook = std::move(hook)](Module& m, const Values& args, const TensorMap&,
                                   const Values& outputs) { return hook(m, args, outputs); }),
      options);
}

RemovableHandle Module::register_full_backward_pre_hook(BackwardPreHook hook, HookOptions options) {
  return impl_->add_hook(path_, &ModuleHooks::backward_pre, std::move(hook), options);
}

RemovableHandle Module::register_full_backward_hook(BackwardHook hook, HookOptions options) {
  return impl_->add_hook(path_, &ModuleHooks::backward, std::move(hook), options);
}

RemovableHandle Module::register_backward_hook(BackwardHook hook) {
  impl_->warn("register_backward_hook() is deprecated: use register_full_backward_hook()");
  return register_full_backward_hook(std::move(hook));
}

RemovableHandle Module::register_state_dict_pre_hook(StateDictPreHook hook) {
  return impl_->add_hook(path_, &ModuleHooks::state_pre, std::move(hook), {});
}

RemovableHandle Module::register_state_dict_post_hook(StateDictPostHook hook) {
  return impl_->add_hook(path_, &ModuleHooks::state_post, std::move(hook), {});
}

RemovableHandle Module::register_load_state_dict_pre_hook(LoadStateDictPreHook hook) {
  return impl_->add_hook(path_, &ModuleHooks::load_pre, std::move(hook), {});
}

RemovableHandle Module::register_load_state_dict_post_hook(LoadStateDictPostHook hook) {
  return impl_->add_hook(path_, &ModuleHooks::load_post, std::move(hook), {});
}

}  // namespace trainrt
