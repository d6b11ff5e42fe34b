// Parameters, buffers and gradients, by name and in one row.
#include <set>

#include "runtime/capi/arguments.h"
#include "runtime/capi/objects.h"
#include "runtime/module/names.h"
#include "trainrt/flat.h"

using namespace trainrt::capi;  // NOLINT: the functions below are its face
using trainrt::Error;
using trainrt::ErrorCode;
using trainrt::Parameter;
using trainrt::Tensor;

namespace {

const Tensor& find_state(const ModuleObject& module, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [own, value] : module.state) {
    if (own == name) return value;
    names.push_back(own);
  }
  const std::string nearest = trainrt::nearest_name(name, names);
  throw Error(ErrorCode::kUsage, "the state has no '" + name + "'" +
                                     (nearest.empty() ? "" : "; the nearest is '" + nearest + "'"));
}

/// Calls f with the caller's numbers as a span.
template <template <typename> typename Pointee, typename Pointer, typename F>
void with_numbers(int32_t dtype, Pointer values, int64_t count, const F& f) {
  const trainrt::DType type = dtype_argument(dtype, "'dtype'");
  if (type != trainrt::DType::kFloat32 && type != trainrt::DType::kFloat64) {
    throw CallError(TRAINRT_ERROR_ARGUMENT, "'dtype': float32 or float64 expected, given " +
                                                std::string(trainrt::dtype_name(type)));
  }
  if (count < 0) throw CallError(TRAINRT_ERROR_ARGUMENT, "'count' is " + std::to_string(count));
  if (count > 0) check_pointer(values, "values");
  trainrt::with_float_type(type, [&](auto sample) {
    using T = typename Pointee<decltype(sample)>::type;
    f(std::span<T>(static_cast<T*>(values), static_cast<size_t>(count)));
  });
}

template <typename T>
struct Written {
  using type = T;
};
template <typename T>
struct Read {
  using type = const T;
};

void check_flat(const ModuleObject& module, int64_t count) {
  const int64_t size = trainrt::flat_size(module.module);
  if (count >= 0 && count != size) {
    throw CallError(TRAINRT_ERROR_SIZE, "the parameters have " + std::to_string(size) +
                                            " elements together, given " + std::to_string(count));
  }
}

}  // namespace

trainrt_status trainrt_module_parameter_count(trainrt_module* module, int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count");
    *count = static_cast<int64_t>(use<ModuleObject>(module)->parameters.size());
  });
}

trainrt_status trainrt_module_parameter(trainrt_module* module, int64_t index,
                                        trainrt_parameter* parameter) {
  return guarded([&] {
    check_pointer(parameter, "parameter");
    const auto m = use<ModuleObject>(module);
    check_index(index, m->parameters.size(), "parameters");
    const Parameter& p = m->parameters[static_cast<size_t>(index)];
    *parameter = {p.name().c_str(), p.original_name().c_str(), p.shape().data(),
                  static_cast<int32_t>(p.shape().size()), static_cast<int32_t>(p.dtype())};
  });
}

trainrt_status trainrt_module_get_requires_grad(trainrt_module* module, const char* name,
                                                int32_t* on) {
  return guarded([&] {
    check_pointer(on, "on");
    const auto m = use<ModuleObject>(module);
    *on = m->module.get_parameter(text_argument(name, "name")).requires_grad();
  });
}

trainrt_status trainrt_module_set_requires_grad(trainrt_module* module, const char* name,
                                                int32_t on) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    if (name == nullptr) {
      m->module.requires_grad_(on != 0);
    } else {
      m->module.get_parameter(name).requires_grad_(on != 0);
    }
  });
}

trainrt_status trainrt_module_get_grad(trainrt_module* module, const char* name, void* data,
                                       size_t bytes, size_t* needed) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    const Parameter p = m->module.get_parameter(text_argument(name, "name"));
    const Tensor grad = p.grad();
    if (!grad.defined()) {
      throw Error(ErrorCode::kUsage,
                  "parameter '" + p.name() + "' has no gradient: " +
                      (p.requires_grad() ? "it needs a backward" : "it is frozen"));
    }
    copy_out(p.name(), grad, data, bytes, needed);
  });
}

trainrt_status trainrt_module_state_count(trainrt_module* module, int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count");
    *count = static_cast<int64_t>(use<ModuleObject>(module)->state.size());
  });
}

trainrt_status trainrt_module_state(trainrt_module* module, int64_t index, trainrt_array* entry) {
  return guarded([&] {
    check_pointer(entry, "entry");
    const auto m = use<ModuleObject>(module);
    check_index(index, m->state.size(), "entries");
    const auto& [name, value] = m->state[static_cast<size_t>(index)];
    describe(name, value, false, entry);
  });
}

trainrt_status trainrt_module_get_state(trainrt_module* module, const char* name, void* data,
                                        size_t bytes, size_t* needed) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    const std::string wanted = text_argument(name, "name");
    copy_out(wanted, find_state(*m, wanted), data, bytes, needed);
  });
}

trainrt_status trainrt_module_set_state(trainrt_module* module, const trainrt_array* entries,
                                        int64_t count) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    const trainrt::StateDict given = array_arguments(entries, count);
    // load_state_dict() passes over names it does not know unless all must be there.
    for (const auto& [name, value] : given) find_state(*m, name);
    m->module.load_state_dict(given, false);
  });
}

trainrt_status trainrt_module_flat_size(trainrt_module* module, int64_t* count) {
  return guarded([&] {
    check_pointer(count, "count");
    *count = trainrt::flat_size(use<ModuleObject>(module)->module);
  });
}

trainrt_status trainrt_module_get_flat(trainrt_module* module, int32_t dtype, void* values,
                                       int64_t count) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    check_flat(*m, count);
    with_numbers<Written>(dtype, values, count,
                          [&](auto numbers) { trainrt::get_flat(m->module, numbers); });
  });
}

trainrt_status trainrt_module_set_flat(trainrt_module* module, int32_t dtype, const void* values,
                                       int64_t count) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    check_flat(*m, count);
    with_numbers<Read>(dtype, values, count,
                       [&](auto numbers) { trainrt::set_flat(m->module, numbers); });
  });
}

trainrt_status trainrt_module_get_flat_grad(trainrt_module* module, int32_t dtype, void* values,
                                            int64_t count) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    check_flat(*m, count);
    with_numbers<Written>(dtype, values, count,
                          [&](auto numbers) { trainrt::get_flat_grad(m->module, numbers); });
  });
}

trainrt_status trainrt_module_set_flat_grad(trainrt_module* module, int32_t dtype,
                                            const void* values, int64_t count) {
  return guarded([&] {
    const auto m = use<ModuleObject>(module);
    check_flat(*m, count);
    with_numbers<Read>(dtype, values, count,
                       [&](auto numbers) { trainrt::set_flat_grad(m->module, numbers); });
  });
}
