#include "runtime/module/state.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/module/original_state.h"

namespace trainrt {
namespace {

/// One call of load_state_dict: finds every fault before anything is copied.
class Loader {
 public:
  Loader(Session& session, const StateDict& values, const StateScope& scope)
      : session_(session), layout_(session.model().state_layout()), scope_(scope) {
    StateDict whole;  // with keys as the whole model has them
    std::set<std::string> given;
    for (const auto& [key, value] : values) whole.emplace_back(whole_key(key), value);
    for (const auto& [key, value] : whole) {
      given.insert(key);
      if (!weight_value(session_, key).defined()) foreign_ = true;
    }
    for (const auto& [name, value] : own_state()) {
      if (!given.contains(name)) original_ = true;
    }
    original_ = original_ || foreign_;
    for (const auto& [key, value] : whole) take(key, value);
    find_missing();
    if (scope_.review) scope_.review(result_);
  }

  LoadResult finish(bool strict) {
    if (strict) {
      for (const std::string& key : result_.missing) {
        const auto refused = layout_.refused.find(key);
        const bool known = original_ && refused != layout_.refused.end();
        fault("'" + key + "' is missing" + (known ? " (" + refused->second + ")" : ""));
      }
      for (const std::string& key : result_.unexpected) {
        const bool lost = original_ && layout_.knows(key);
        fault("'" + key + "' is not in the model" +
              (lost ? " (the exporter folded it into something else, or nothing reads it)" : ""));
      }
    }
    if (!faults_.empty()) throw Error(ErrorCode::kInput, "state_dict: " + faults_);
    for (const auto& copy : copies_) copy();
    return result_;
  }

 private:
  void fault(const std::string& text) { faults_ += (faults_.empty() ? "" : "; ") + text; }

  /// A key relative to the scope with its path before it, when that is a known one.
  std::string whole_key(const std::string& key) const {
    if (scope_.module.empty()) return key;
    const std::string whole = scope_.module + "." + key;
    return weight_value(session_, whole).defined() || layout_.knows(whole) ? whole : key;
  }

  StateDict own_state() const {
    StateDict own = state_dict(session_);
    std::erase_if(
        own, [&](const auto& entry) { return !session_.owned_by(entry.first, scope_.module); });
    return own;
  }

  bool in_scope(const std::string& key, const std::vector<const StateEntry*>& entries) const {
    if (scope_.module.empty()) return true;
    if (entries.empty()) {
      return !weight_value(session_, key).defined() || session_.owned_by(key, scope_.module);
    }
    return std::all_of(entries.begin(), entries.end(), [&](const StateEntry* entry) {
      return session_.owned_by(entry->weight, scope_.module);
    });
  }

  /// The value in the model's type, when it fits.
  Tensor fit(const std::string& key, const Tensor& value, DType dtype, const Shape& expected) {
    if (!value.defined() || !is_float(value.dtype())) {
      fault("'" + key + "': expected " + std::string(dtype_name(dtype)) + ", given " +
            (value.defined() ? std::string(dtype_name(value.dtype())) : "an undefined tensor"));
      return {};
    }
    if (value.shape() != expected) {
      fault("'" + key + "': expected shape " + to_string(expected) + ", given " +
            to_string(value.shape()));
      return {};
    }
    return value.dtype() == dtype ? value : value.to(dtype);
  }

  void take(const std::string& key, const Tensor& value) {
    const auto entries = original_ ? layout_.find(key) : std::vector<const StateEntry*>();
    if (!in_scope(key, entries)) {
      result_.unexpected.push_back(key);
      return;
    }
    if (!entries.empty()) {
      for (const StateEntry* entry : entries) take_part(key, *entry, value);
      return;
    }
    Tensor own = weight_value(session_, key);
    if (own.defined()) {
      if (const auto refused = layout_.refused.find(key);
          foreign_ && refused != layout_.refused.end()) {
        fault("'" + key + "' of the file is not the framework's: " + refused->second);
        covered_[key];
        return;
      }
      if (covered_.contains(key)) {
        fault("'" + key + "' is given twice");
        return;
      }
      covered_[key].whole = true;
      const Tensor fitting = fit(key, value, own.dtype(), own.shape());
      if (fitting.defined() && fitting.raw() != own.raw()) {
        copies_.push_back([own, fitting]() mutable { own.copy_from(fitting); });
      }
      return;
    }
    const auto constant = std::find_if(layout_.constants.begin(), layout_.constants.end(),
                                       [&](const StateConstant& c) { return c.name == key; });
    if (constant != layout_.constants.end() && value.defined()) {
      const Tensor& stored = constant->value;
      const bool same =
          equal_bytes(stored, value) || (is_float(stored.dtype()) && is_float(value.dtype()) &&
                                         equal_bytes(stored, value.to(stored.dtype())));
      if (!same) fault("'" + key + "' is a constant of the model, with another value");
    } else if (!value.defined() || !is_bookkeeping(key, value, layout_)) {
      result_.unexpected.push_back(key);
    }
  }

  void take_part(const std::string& key, const StateEntry& entry, const Tensor& value) {
    const Tensor own = weight_value(session_, entry.weight);
    Covered& covered = covered_[entry.weight];
    const Tensor fitting = fit(key, value, own.dtype(), entry.shape);
    const auto [part, is_new] = covered.parts.try_emplace(entry.offset, Part{key, fitting});
    if (covered.whole || (!is_new && part->second.key == key)) {
      fault("'" + entry.weight + "' is given twice");
    } else if (is_new && fitting.defined()) {
      copies_.push_back([&entry, own, fitting] { from_original(entry, fitting, own); });
    } else if (fitting.defined() && part->second.value.defined() &&
               !equal_bytes(fitting, part->second.value)) {
      fault("'" + part->second.key + "' and '" + key +
            "' are one weight in the file, the values given are different");
    }
  }

  void find_missing() {
    for (const auto& [name, value] : own_state()) {
      const auto covered = covered_.find(name);
      if (covered != covered_.end() && covered->second.whole) continue;
      if (covered == covered_.end() && copy_twin(name)) continue;
      const auto entries = original_ ? layout_.in_weight(name) : std::vector<const StateEntry*>();
      if (entries.empty()) {
        if (covered == covered_.end()) result_.missing.push_back(name);
        continue;
      }
      std::set<int64_t> parts;
      if (covered != covered_.end()) {
        for (const auto& [offset, part] : covered->second.parts) parts.insert(offset);
      }
      for (const StateEntry* entry : entries) {
        if (!parts.insert(entry->offset).second) continue;
        auto& missing = result_.missing;
        if (std::find(missing.begin(), missing.end(), entry->key) == missing.end()) {
          missing.push_back(entry->key);
        }
      }
    }
  }

  /// A weight that is one with another in the framework and not named takes that one's values.
  bool copy_twin(const std::string& name) {
    if (!original_) return false;
    for (const StateTwins& twins : layout_.twins) {
      if (twins.first != name && twins.second != name) continue;
      const std::string& other = twins.first == name ? twins.second : twins.first;
      const auto covered = covered_.find(other);
      if (covered == covered_.end()) continue;
      Tensor own = weight_value(session_, name), source = weight_value(session_, other);
      const bool transposed = twins.transposed;
      copies_.push_back([own, source, transposed]() mutable {
        if (transposed) {
          copy_transposed(own, source);
        } else {
          own.copy_from(source);
        }
      });
      return true;
    }
    return false;
  }

  struct Part {
    std::string key;
    Tensor value;
  };
  struct Covered {
    bool whole = false;
    std::map<int64_t, Part> parts;  // by offset
  };

  Session& session_;
  const StateLayout& layout_;
  const StateScope& scope_;
  bool foreign_ = false;  // some key is no name of the file
  /// The keys are not just the names of the file: they are looked up among the framework's first.
  bool original_ = false;
  std::map<std::string, Covered> covered_;  // by file name
  LoadResult result_;
  std::string faults_;
  std::vector<std::function<void()>> copies_;
};

}  // namespace

StateDict state_dict(Session& session) {
  StateDict dict;
  for (const auto& p : session.parameters()) dict.emplace_back(p->info.name, p->value());
  const Store& buffers = session.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    const std::string& name = buffers.names()[i];
    if (!session.transient().contains(name)) dict.emplace_back(name, buffers.at(i));
  }
  return dict;
}

LoadResult load_state_dict(Session& session, const StateDict& values, bool strict,
                           const StateScope& scope) {
  return Loader(session, values, scope).finish(strict);
}

void add_weights(Session& session, Checkpoint& checkpoint) {
  for (const auto& p : session.parameters()) {
    checkpoint.tensors.emplace_back("parameter/" + p->info.name, p->value());
  }
  const Store& buffers = session.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (session.transient().contains(buffers.names()[i])) continue;
    checkpoint.tensors.emplace_back("buffer/" + buffers.names()[i], buffers.at(i));
  }
  for (const auto& [module, bytes] : session.extra_states()) {
    checkpoint.tensors.emplace_back(
        "extra/" + module,
        Tensor::from(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
                     {static_cast<int64_t>(bytes.size())}));
  }
}

void load_extra_states(Session& session, const Checkpoint& checkpoint) {
  for (const auto& [name, value] : checkpoint.tensors) {
    if (!name.starts_with("extra/")) continue;
    const auto bytes = value.data<uint8_t>();
    session.set_extra_state(name.substr(6), std::string(bytes.begin(), bytes.end()));
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
