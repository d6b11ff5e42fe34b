// A module's state: state_dict and its hooks, checkpoints, exports.
#include <algorithm>
#include <cstring>

#include "runtime/module/impl.h"
#include "runtime/module/state.h"
#include "runtime/train/checkpoint.h"

namespace trainrt {
namespace {

constexpr std::string_view kExtra = "_extra_state";

Tensor bytes_tensor(const std::string& bytes) {
  Tensor t(DType::kUInt8, {static_cast<int64_t>(bytes.size())});
  if (!bytes.empty()) std::memcpy(t.raw(), bytes.data(), bytes.size());
  return t;
}

/// Calls f(module, hook) for the hooks of a kind of all these modules.
template <typename F, typename Call>
void for_each_hook(const HookTable& table, const std::vector<Module>& modules,
                   std::vector<HookEntry<F>> ModuleHooks::*kind, const Call& f) {
  for (Module module : modules) {
    for (const auto& hook : table.now(module.path(), kind)) f(module, hook.call);
  }
}

/// "net.0._extra_state" -> "net.0".
bool is_extra_key(const std::string& key, std::string* module) {
  if (!key.ends_with(kExtra)) return false;
  std::string path = key.substr(0, key.size() - kExtra.size());
  if (!path.empty() && path.back() != '.') return false;
  if (!path.empty()) path.pop_back();
  *module = path;
  return true;
}

}  // namespace

StateDict Module::state_dict(const std::string& prefix, bool) const {
  std::vector<Module> below = modules();
  const HookTable& hooks = *impl_->hooks;
  const auto place = [&](const Module& m) { return join(prefix, relative(m.path(), path_)); };
  for_each_hook(hooks, below, &ModuleHooks::state_pre,
                [&](Module& m, const auto& hook) { hook(m, place(m)); });
  StateDict dict;
  for (auto& [name, parameter] : named_parameters(prefix))
    dict.emplace_back(name, parameter.value());
  const Session& session = *impl_->session;
  for (size_t i = 0; i < session.buffers().size(); ++i) {
    const std::string& name = session.buffers().names()[i];
    if (session.transient().contains(name) || !session.owned_by(name, path_)) continue;
    dict.emplace_back(join(prefix, relative(name, path_)), session.buffers().at(i));
  }
  for (const auto& [path, bytes] : impl_->session->extra_states()) {
    if (!lies_in(path, path_)) continue;
    dict.emplace_back(join(join(prefix, relative(path, path_)), std::string(kExtra)),
                      bytes_tensor(bytes));
  }
  // A parent's hook sees what its children's made of their part.
  std::reverse(below.begin(), below.end());
  for_each_hook(hooks, below, &ModuleHooks::state_post,
                [&](Module& m, const auto& hook) { hook(m, dict, place(m)); });
  return dict;
}

LoadResult Module::load_state_dict(const StateDict& given, bool strict) {
  const std::lock_guard lock(impl_->session->mutex());
  StateDict values = given;
  std::vector<Module> below = modules();
  const HookTable& hooks = *impl_->hooks;
  for_each_hook(hooks, below, &ModuleHooks::load_pre,
                [&](Module& m, const auto& hook) { hook(m, values, strict); });
  std::reverse(below.begin(), below.end());
  std::map<std::string, std::string> extra;
  std::erase_if(values, [&](const auto& entry) {
    std::string module;
    if (!is_extra_key(entry.first, &module)) return false;
    module = join(path_, module);
    if (!impl_->places.contains(module) || !entry.second.defined() ||
        entry.second.dtype() != DType::kUInt8) {
      return false;
    }
    extra[module] = std::string(static_cast<const char*>(entry.second.raw()), entry.second.bytes());
    return true;
  });
  const auto review = [&](LoadResult& result) {
    for_each_hook(hooks, below, &ModuleHooks::load_post,
                  [&](Module& m, const auto& hook) { hook(m, result); });
  };
  const LoadResult result =
      trainrt::load_state_dict(*impl_->session, values, strict, {path_, review});
  for (auto& [module, bytes] : extra) impl_->session->set_extra_state(module, bytes);
  return result;
}

void Module::set_extra_state(const std::string& bytes) {
  impl_->session->set_extra_state(path_, bytes);
}

std::string Module::get_extra_state() const {
  const auto& states = impl_->session->extra_states();
  const auto found = states.find(path_);
  return found == states.end() ? "" : found->second;
}

void Module::export_onnx(const std::string& path) const {
  root_only("export_onnx()");
  const OnnxModel& model = impl_->session->model();
  std::map<std::string, Tensor> values;
  for (const WeightInfo& w : model.parameters()) {
    values[w.name] = impl_->session->find_parameter(w.name)->value();
  }
  for (const WeightInfo& w : model.buffers())
    values[w.name] = impl_->session->buffers().find(w.name);
  model.save(path, values);
}

void Module::save(const std::string& path) const {
  root_only("save()");
  Checkpoint checkpoint;
  checkpoint.text["kind"] = "module";
  checkpoint.text["working"] = std::string(dtype_name(impl_->session->working()));
  add_weights(*impl_->session, checkpoint);
  write_checkpoint(path, checkpoint);
}

void Module::load(const std::string& path) {
  root_only("load()");
  const Checkpoint checkpoint = read_checkpoint(path);
  try {
    trainrt::load_state_dict(*impl_->session, weights_of(checkpoint), true);
    load_extra_states(*impl_->session, checkpoint);
  } catch (const Error& e) {
    throw Error(e.code(), "checkpoint " + path + " does not fit the model: " + e.what());
  }
}

}  // namespace trainrt
