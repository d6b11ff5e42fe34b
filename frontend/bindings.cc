// Do the given inputs fit the declared ones?
#include <algorithm>
#include <cctype>
#include <set>

#include "frontend/specialize.h"

namespace trainrt {
namespace {

bool same_kind(DType declared, DType given) {
  return is_float(declared) ? is_float(given) : declared == given;
}

// Some exporters call every free dim "?" or "-1".
bool is_name(const std::string& symbol) {
  return std::any_of(symbol.begin(), symbol.end(), [](unsigned char c) { return std::isalpha(c); });
}

bool is_sequence(const Port& port) {
  return port.kind == PortKind::kSequence || port.kind == PortKind::kOptionalSequence;
}

}  // namespace

std::string entry_name(const std::string& port, size_t entry) {
  return port + "[" + std::to_string(entry) + "]";
}

const Port* find_port(const std::vector<Port>& ports, const std::string& name) {
  const size_t bracket = name.rfind('[');
  const Port* of_entry = nullptr;
  for (const Port& port : ports) {
    if (port.name == name) return &port;
    if (is_sequence(port) && bracket != std::string::npos && name.ends_with("]") &&
        port.name == std::string_view(name).substr(0, bracket)) {
      of_entry = &port;
    }
  }
  return of_entry;
}

std::string to_string(const Port& port) {
  std::string text = "[";
  for (size_t i = 0; i < port.dims.size(); ++i) {
    const Dim& d = port.dims[i];
    if (i > 0) text += ",";
    text += d.size >= 0 ? std::to_string(d.size) : d.symbol.empty() ? "?" : d.symbol;
  }
  return text + "]";
}

std::string declared_type(const Port& port) {
  return std::string(dtype_name(port.dtype)) + (port.has_shape ? to_string(port) : "");
}

bool shape_fits(const Port& port, const Shape& shape) {
  if (!port.has_shape) return true;
  if (shape.size() != port.dims.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (port.dims[i].size >= 0 && port.dims[i].size != shape[i]) return false;
  }
  return true;
}

namespace {

class BindingCheck {
 public:
  BindingCheck(const ImportedModel& model, const std::map<std::string, InputBinding>& inputs)
      : m_(model), inputs_(inputs) {}

  std::string run() {
    for (size_t i = 0; i < m_.inputs.size(); ++i) {
      if (is_sequence(m_.inputs[i])) {
        check_entries(m_.inputs[i], !m_.odd_inputs[i].empty());
      } else {
        check_tensor(m_.inputs[i], !m_.odd_inputs[i].empty());
      }
    }
    for (const auto& [name, binding] : inputs_) {
      if (known_.contains(name)) continue;
      const Port* port = find_port(m_.inputs, name);
      if (port != nullptr) {
        fault("input " + port->name + " is a sequence: its entries are called " +
              entry_name(port->name, 0) + ", " + entry_name(port->name, 1) +
              ", … without a gap; given " + name);
        continue;
      }
      std::string names;
      for (const Port& p : m_.inputs) names += (names.empty() ? "" : ", ") + p.name;
      fault("the model has no input " + name + "; its inputs are " +
            (names.empty() ? "none" : names));
    }
    return std::move(faults_);
  }

 private:
  void fault(const std::string& text) { faults_ += (faults_.empty() ? "" : "; ") + text; }

  void check_tensor(const Port& port, bool odd) {
    const auto it = inputs_.find(port.name);
    if (it != inputs_.end()) {
      known_.insert(port.name);
      if (!odd && check_binding(port.name, port, it->second)) check_symbols(port, it->second.type);
    } else if (!odd && port.kind == PortKind::kTensor) {
      fault("input " + port.name + ": no value given, expected " + declared_type(port));
    }
  }

  // The entries of a sequence may differ where the dims have names.
  void check_entries(const Port& port, bool odd) {
    for (size_t k = 0;; ++k) {
      const auto it = inputs_.find(entry_name(port.name, k));
      if (it == inputs_.end()) return;
      known_.insert(it->first);
      if (!odd) check_binding(it->first, port, it->second);
    }
  }

  bool check_binding(const std::string& name, const Port& port, const InputBinding& binding) {
    const TensorType& type = binding.type;
    const std::optional<Tensor>& value = binding.value;
    if (!same_kind(port.dtype, type.dtype) || !shape_fits(port, type.shape)) {
      fault("input " + name + ": expected " + declared_type(port) + ", given " + to_string(type));
    } else if (value && (value->shape() != type.shape || !same_kind(port.dtype, value->dtype()))) {
      fault("input " + name + ": the value is " + std::string(dtype_name(value->dtype())) +
            to_string(value->shape()) + ", its type says " + to_string(type));
    } else {
      return true;
    }
    return false;
  }

  void check_symbols(const Port& port, const TensorType& type) {
    for (size_t d = 0; port.has_shape && d < port.dims.size(); ++d) {
      const std::string& symbol = port.dims[d].symbol;
      if (port.dims[d].size >= 0 || !is_name(symbol)) continue;
      const auto [known, fresh] = symbols_.try_emplace(symbol, type.shape[d], port.name);
      if (!fresh && known->second.first != type.shape[d]) {
        fault("input " + port.name + ": " + symbol + " is " + std::to_string(type.shape[d]) +
              ", but input " + known->second.second + " has " + symbol + " = " +
              std::to_string(known->second.first));
      }
    }
  }

  const ImportedModel& m_;
  const std::map<std::string, InputBinding>& inputs_;
  std::string faults_;
  std::set<std::string> known_;                                     // names that belong to a port
  std::map<std::string, std::pair<int64_t, std::string>> symbols_;  // size, input that fixed it
};

}  // namespace

void check_bindings(const ImportedModel& m, const std::map<std::string, InputBinding>& inputs) {
  const std::string faults = BindingCheck(m, inputs).run();
  if (!faults.empty()) throw Error(ErrorCode::kInput, faults);
}

}  // namespace trainrt
