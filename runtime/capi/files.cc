// Arrays and state in files.
#include "runtime/capi/arguments.h"
#include "runtime/capi/objects.h"
#include "runtime/data/safetensors.h"
#include "trainrt/data.h"

using namespace trainrt::capi;  // NOLINT: the functions below are its face
using trainrt::StateDict;

namespace {

/// Whether the path is that of a .safetensors file, or else of a .npz file.
bool is_safetensors(const std::string& path) {
  if (path.ends_with(".safetensors")) return true;
  if (path.ends_with(".npz")) return false;
  throw trainrt::Error(trainrt::ErrorCode::kUsage,
                       path + ": a path that ends with .npz or .safetensors expected");
}

StateDict load_arrays(const std::string& path) {
  StateDict arrays;
  if (is_safetensors(path)) {
    for (const auto& [name, tensor] : trainrt::read_safetensors(path)) {
      arrays.emplace_back(name, tensor);
    }
  } else {
    for (const auto& [name, tensor] : trainrt::load_npz(path)) arrays.emplace_back(name, tensor);
  }
  return arrays;
}

}  // namespace

trainrt_status trainrt_arrays_load(const char* path, trainrt_arrays** arrays) {
  return guarded([&] {
    clear_result(arrays, "arrays");
    give(arrays, std::make_shared<ArraysObject>(load_arrays(text_argument(path, "path"))));
  });
}

trainrt_status trainrt_module_save_state(trainrt_module* module, const char* path) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    const std::string file = text_argument(path, "path");
    const StateDict state = m->module.state_dict();
    if (is_safetensors(file)) {
      trainrt::write_safetensors(file, {state.begin(), state.end()});
    } else {
      trainrt::save_npz(file, {state.begin(), state.end()});
    }
  });
}

trainrt_status trainrt_module_load_state(trainrt_module* module, const char* path, int32_t strict) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    m->module.load_state_dict(load_arrays(text_argument(path, "path")), strict != 0);
  });
}

trainrt_status trainrt_module_save_checkpoint(trainrt_module* module, const char* path) {
  return guarded([&] { use<ModuleObject>(module)->module.save(text_argument(path, "path")); });
}

trainrt_status trainrt_module_load_checkpoint(trainrt_module* module, const char* path) {
  return guarded([&] { use<ModuleObject>(module)->module.load(text_argument(path, "path")); });
}

trainrt_status trainrt_module_export_onnx(trainrt_module* module, const char* path) {
  return guarded(
      [&] { use<ModuleObject>(module)->module.export_onnx(text_argument(path, "path")); });
}
