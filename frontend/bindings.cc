// Do the given inputs fit the declared ones?
#include <algorithm>
#include <cctype>

#include "frontend/specialize.h"

namespace trainrt {
namespace {

std::string expected(const Port& port) {
  return std::string(dtype_name(port.dtype)) + (port.has_shape ? " " + to_string(port) : "");
}

bool same_kind(DType declared, DType given) {
  return is_float(declared) ? is_float(given) : declared == given;
}

// Some exporters call every free dim "?" or "-1".
bool is_name(const std::string& symbol) {
  return std::any_of(symbol.begin(), symbol.end(), [](unsigned char c) { return std::isalpha(c); });
}

bool shape_fits(const Port& port, const Shape& shape) {
  if (!port.has_shape) return true;
  if (shape.size() != port.dims.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (port.dims[i].size >= 0 && port.dims[i].size != shape[i]) return false;
  }
  return true;
}

}  // namespace

std::string to_string(const Port& port) {
  std::string text = "[";
  for (size_t i = 0; i < port.dims.size(); ++i) {
    const Dim& d = port.dims[i];
    if (i > 0) text += ",";
    text += d.size >= 0 ? std::to_string(d.size) : d.symbol.empty() ? "?" : d.symbol;
  }
  return text + "]";
}

void check_bindings(const ImportedModel& m, const std::map<std::string, InputBinding>& inputs) {
  std::string faults;
  auto fault = [&](const std::string& text) { faults += (faults.empty() ? "" : "; ") + text; };
  std::map<std::string, std::pair<int64_t, std::string>> symbols;  // size, input that fixed it
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    const Port& port = m.inputs[i];
    const auto it = inputs.find(port.name);
    if (it == inputs.end()) {
      if (m.odd_inputs[i].empty()) {
        fault("input " + port.name + ": no value given, expected " + expected(port));
      }
      continue;
    }
    if (!m.odd_inputs[i].empty()) continue;
    const TensorType& type = it->second.type;
    if (!same_kind(port.dtype, type.dtype)) {
      fault("input " + port.name + " is " + std::string(dtype_name(port.dtype)) + ", given " +
            std::string(dtype_name(type.dtype)));
      continue;
    }
    const std::optional<Tensor>& value = it->second.value;
    if (!shape_fits(port, type.shape)) {
      fault("input " + port.name + ": expected " + to_string(port) + ", given " +
            to_string(type.shape));
      continue;
    }
    if (value && (value->shape() != type.shape || !same_kind(port.dtype, value->dtype()))) {
      fault("input " + port.name + ": the value is " + std::string(dtype_name(value->dtype())) +
            to_string(value->shape()) + ", its type says " + to_string(type));
      continue;
    }
    for (size_t d = 0; port.has_shape && d < port.dims.size(); ++d) {
      const std::string& symbol = port.dims[d].symbol;
      if (port.dims[d].size >= 0 || !is_name(symbol)) continue;
      const auto [known, fresh] = symbols.try_emplace(symbol, type.shape[d], port.name);
      if (!fresh && known->second.first != type.shape[d]) {
        fault("input " + port.name + ": " + symbol + " is " + std::to_string(type.shape[d]) +
              ", but input " + known->second.second + " has " + symbol + " = " +
              std::to_string(known->second.first));
      }
    }
  }
  for (const auto& [name, binding] : inputs) {
    bool known = false;
    for (const Port& port : m.inputs) known = known || port.name == name;
    if (known) continue;
    std::string names;
    for (const Port& port : m.inputs) names += (names.empty() ? "" : ", ") + port.name;
    fault("the model has no input " + name + "; its inputs are " +
          (names.empty() ? "none" : names));
  }
  if (!faults.empty()) throw Error(ErrorCode::kInput, faults);
}

}  // namespace trainrt
