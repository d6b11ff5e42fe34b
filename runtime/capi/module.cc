// Loading a model, its inputs and outputs, forward and backward.
#include "runtime/capi/arguments.h"
#include "runtime/capi/objects.h"

using namespace trainrt::capi;  // NOLINT: the functions below are its face
using trainrt::Module;
using trainrt::ModuleOptions;
using trainrt::PortInfo;

namespace {

ModuleOptions options_of(trainrt_options* options) {
  return options == nullptr ? ModuleOptions() : use<OptionsObject>(options)->options;
}

void read_port(const std::vector<PortInfo>& ports, int64_t index, const char* what,
               trainrt_port* out) {
  check_index(index, ports.size(), what);
  const PortInfo& port = ports[static_cast<size_t>(index)];
  *out = {port.name.c_str(),
          port.text.c_str(),
          port.dims.data(),
          port.has_shape ? static_cast<int32_t>(port.dims.size()) : -1,
          static_cast<int32_t>(port.dtype),
          port.sequence,
          port.optional};
}

}  // namespace

trainrt_status trainrt_module_load(const char* path, trainrt_options* options,
                                   trainrt_module** module) {
  return guarded([&] {
    clear_result(module, "module");
    const std::string file = text_argument(path, "path");
    give(module, std::make_shared<ModuleObject>(Module(file, options_of(options))));
  });
}

trainrt_status trainrt_module_load_memory(const void* data, size_t bytes, trainrt_options* options,
                                          const char* folder, trainrt_module** module) {
  return guarded([&] {
    clear_result(module, "module");
    if (bytes > 0) check_pointer(data, "data");
    give(module, std::make_shared<ModuleObject>(
                     Module::from_bytes({static_cast<const char*>(data), bytes},
                                        options_of(options), folder == nullptr ? "." : folder)));
  });
}

trainrt_status trainrt_module_free(trainrt_module* module) {
  return free_handle<ModuleObject>(module);
}

trainrt_status trainrt_module_input_count(trainrt_module* module, int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count");
    *count = static_cast<int64_t>(use<ModuleObject>(module)->module.inputs().size());
  });
}

trainrt_status trainrt_module_input(trainrt_module* module, int64_t index, trainrt_port* input) {
  return guarded([&] {
    check_pointer(input, "input");
    read_port(use<ModuleObject>(module)->module.inputs(), index, "inputs", input);
  });
}

trainrt_status trainrt_module_output_count(trainrt_module* module, int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count");
    *count = static_cast<int64_t>(use<ModuleObject>(module)->module.outputs().size());
  });
}

trainrt_status trainrt_module_output(trainrt_module* module, int64_t index, trainrt_port* output) {
  return guarded([&] {
    check_pointer(output, "output");
    read_port(use<ModuleObject>(module)->module.outputs(), index, "outputs", output);
  });
}

trainrt_status trainrt_module_warning_count(trainrt_module* module, int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count");
    *count = static_cast<int64_t>(use<ModuleObject>(module)->module.warnings().size());
  });
}

trainrt_status trainrt_module_warning(trainrt_module* module, int64_t index, const char** text) {
  return guarded([&] {
    clear_result(text, "text");
    const auto m = use<ModuleObject>(module);
    check_index(index, m->module.warnings().size(), "warnings");
    *text = m->module.warnings()[static_cast<size_t>(index)].c_str();
  });
}

trainrt_status trainrt_module_check(trainrt_module* module, const trainrt_array* inputs,
                                    int64_t count, trainrt_problems** problems) {
  return guarded([&] {
    clear_result(problems, "problems");
    const auto m = use<ModuleObject>(module);
    give(problems, std::make_shared<ProblemsObject>(m->module.check(tensor_map(inputs, count))));
  });
}

trainrt_status trainrt_module_train(trainrt_module* module, int32_t on) {
  return guarded([&] { use<ModuleObject>(module)->module.train(on != 0); });
}

trainrt_status trainrt_module_is_training(trainrt_module* module, int32_t* on) {
  return guarded([&] {
    check_pointer(on, "on");
    *on = use<ModuleObject>(module)->module.is_training();
  });
}

trainrt_status trainrt_module_forward(trainrt_module* module, const trainrt_array* inputs,
                                      int64_t count, trainrt_arrays** outputs) {
  return guarded([&] {
    clear_result(outputs, "outputs");
    const auto m = use<ModuleObject>(module);
    const trainrt::Outputs result = m->module.forward(tensor_map(inputs, count));
    give(outputs, std::make_shared<ArraysObject>(trainrt::StateDict(result.begin(), result.end())));
  });
}

trainrt_status trainrt_module_attach_loss(trainrt_module* module, const char* const* losses,
                                          int64_t count) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    if (count < 0) {
      throw CallError(TRAINRT_ERROR_ARGUMENT, "'count' is " + std::to_string(count));
    }
    if (count > 0) check_pointer(losses, "losses");
    std::vector<std::string> texts;
    for (int64_t i = 0; i < count; ++i) texts.push_back(text_argument(losses[i], "losses"));
    m->module.attach_loss(texts);
  });
}

trainrt_status trainrt_module_backward(trainrt_module* module, const trainrt_array* output_grads,
                                       int64_t count) {
  return guarded(
      [&] { use<ModuleObject>(module)->module.backward(tensor_map(output_grads, count)); });
}

trainrt_status trainrt_module_backward_loss(trainrt_module* module) {
  return guarded([&] { use<ModuleObject>(module)->module.backward(); });
}

trainrt_status trainrt_module_zero_grad(trainrt_module* module, int32_t set_to_none) {
  return guarded([&] { use<ModuleObject>(module)->module.zero_grad(set_to_none != 0); });
}

trainrt_status trainrt_module_set_input_grads(trainrt_module* module, int32_t on) {
  return guarded([&] { use<ModuleObject>(module)->module.input_requires_grad_(on != 0); });
}

trainrt_status trainrt_module_get_input_grad(trainrt_module* module, const char* name, void* data,
                                             size_t bytes, size_t* needed) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    const std::string input = text_argument(name, "name");
    copy_out(input, m->module.input_grad(input), data, bytes, needed);
  });
}
