#include "runtime/module/state.h"

#include <functional>
#include <set>

namespace trainrt {
namespace {

// Copies a matrix into its transpose.
void copy_transposed(Tensor to, const Tensor& from) {
  const int64_t rows = from.shape()[0], columns = from.shape()[1];
  with_float_type(to.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T* y = static_cast<T*>(to.raw());
    const T* x = static_cast<const T*>(from.raw());
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
    }
  });
}

}  // namespace

StateDict state_dict(Session& session) {
  StateDict dict;
  for (const auto& p : session.parameters()) dict.emplace_back(p->info.name, p->value);
  const Store& buffers = session.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) dict.emplace_back(buffers.names()[i], buffers.at(i));
  return dict;
}

LoadResult load_state_dict(Session& session, const StateDict& values, bool strict) {
  LoadResult result;
  std::string faults;
  auto fault = [&](const std::string& text) { faults += (faults.empty() ? "" : "; ") + text; };
  std::vector<std::function<void()>> copies;
  std::set<std::string> seen;
  for (const auto& [key, value] : values) {
    const auto parameter = session.find_parameter(key);
    const std::string name = parameter != nullptr ? parameter->info.name : key;
    Tensor own = parameter != nullptr ? parameter->value : session.buffers().find(key);
    if (!own.defined()) {
      result.unexpected.push_back(key);
      continue;
    }
    if (!seen.insert(name).second) {
      fault("'" + name + "' is given twice");
      continue;
    }
    if (!value.defined() || !is_float(value.dtype())) {
      fault("'" + key + "': expected " + std::string(dtype_name(own.dtype())) + ", given " +
            (value.defined() ? std::string(dtype_name(value.dtype())) : "an undefined tensor"));
      continue;
    }
    // Under its original name a weight comes in the framework's layout.
    const bool transposed = parameter != nullptr && parameter->info.transposed &&
                            key != parameter->info.name && own.rank() == 2;
    const Shape expected = transposed ? Shape{own.shape()[1], own.shape()[0]} : own.shape();
    if (value.shape() != expected) {
      fault("'" + key + "': expected shape " + to_string(expected) + ", given " +
            to_string(value.shape()));
      continue;
    }
    const Tensor converted = value.dtype() == own.dtype() ? value : value.to(own.dtype());
    copies.push_back([own, converted, transposed]() mutable {
      if (transposed) {
        copy_transposed(own, converted);
      } else if (own.raw() != converted.raw()) {
        own.copy_from(converted);
      }
    });
  }
  for (const auto& [name, value] : state_dict(session)) {
    if (!seen.contains(name)) result.missing.push_back(name);
  }
  if (strict) {
    for (const std::string& key : result.missing) fault("'" + key + "' is missing");
    for (const std::string& key : result.unexpected) fault("'" + key + "' is not in the model");
  }
  if (!faults.empty()) throw Error(ErrorCode::kInput, "state_dict: " + faults);
  for (const auto& copy : copies) copy();
  return result;
}

void add_weights(Session& session, Checkpoint& checkpoint) {
  for (const auto& p : session.parameters()) {
    checkpoint.tensors.emplace_back("parameter/" + p->info.name, p->value);
  }
  const Store& buffers = session.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    checkpoint.tensors.emplace_back("buffer/" + buffers.names()[i], buffers.at(i));
  }
}

StateDict weights_of(const Checkpoint& checkpoint) {
  StateDict dict;
  for (const auto& [name, value] : checkpoint.tensors) {
    if (name.starts_with("parameter/")) dict.emplace_back(name.substr(10), value);
    if (name.starts_with("buffer/")) dict.emplace_back(name.substr(7), value);
  }
  return dict;
}

}  // namespace trainrt
