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
  const std::vector<Module> below = modules();
  for (const Module& m : below) {
    const auto hooks = impl_->hooks->modules.find(m.path());
    if (hooks == impl_->hooks->modules.end()) continue;
    Module handle = m;
    for (const auto& hook : std::vector(hooks->second.state_pre)) {
      hook.call(handle, join(prefix, relative(m.path(), path_)));
    }
  }
  StateDict dict;
  for (auto& [name, parameter] : named_parameters(prefix))
    dict.emplace_back(name, parameter.value());
  for (auto& [name, buffer] : named_buffers(prefix)) {
    const std::string full = join(path_, prefix.empty() ? name : name.substr(prefix.size() + 1));
    if (!impl_->session->transient().contains(full) &&
        !impl_->session->transient().contains(name)) {
      dict.emplace_back(name, buffer);
    }
  }
  for (const auto& [path, bytes] : impl_->session->extra_states()) {
    if (!lies_in(path, path_)) continue;
    dict.emplace_back(join(join(prefix, relative(path, path_)), std::string(kExtra)),
                      bytes_tensor(bytes));
  }
  // A parent's hook sees what its children's made of their part.
  for (auto m = below.rbegin(); m != below.rend(); ++m) {
    const auto hooks = impl_->hooks->modules.find(m->path());
    if (hooks == impl_->hooks->modules.end()) continue;
    Module handle = *m;
    for (const auto& hook : std::vector(hooks->second.state_post)) {
      hook.call(handle, dict, join(prefix, relative(m->path(), path_)));
    }
  }
  return dict;
}

LoadResult Module::load_state_dict(const StateDict& given, bool strict) {
  const std::lock_guard lock(impl_->session->mutex());
  StateDict values = given;
  const std::vector<Module> below = modules();
  for (const Module& m : below) {
    const auto hooks = impl_->hooks->modules.find(m.path());
    if (hooks == impl_->hooks->modules.end()) continue;
    Module handle = m;
    for (const auto& hook : std::vector(hooks->second.load_pre)) hook.call(handle, values, strict);
  }
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
    for (auto m = below.rbegin(); m != below.rend(); ++m) {
      const auto hooks = impl_->hooks->modules.find(m->path());
      if (hooks == impl_->hooks->modules.end()) continue;
      Module handle = *m;
      for (const auto& hook : std::vector(hooks->second.load_post)) hook.call(handle, result);
    }
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
    values[w.name] = impl_->session->find_parameter(w.name)->value;
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
