#include "trainrt/values.h"

#include <algorithm>

namespace trainrt {
namespace {

/// "a.0[1].b" -> {"a", "0", "1", "b"}.
std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (char c : name) {
    if (c == '.' || c == '[') {
      parts.emplace_back();
    } else if (c != ']') {
      parts.back() += c;
    }
  }
  return parts;
}

/// Makes a list of a map whose keys are 0, 1, … .
void make_lists(Nested& node) {
  for (auto& [name, part] : node.fields) make_lists(part);
  std::vector<Nested> items;
  for (size_t i = 0; i < node.fields.size(); ++i) {
    const auto found = node.fields.find(std::to_string(i));
    if (found == node.fields.end()) return;
    items.push_back(found->second);
  }
  node.items = std::move(items);
  node.fields.clear();
}

}  // namespace

const Nested& Nested::operator[](size_t index) const {
  if (index >= items.size()) {
    throw Error(ErrorCode::kUsage,
                "part " + std::to_string(index) + " of a list of " + std::to_string(items.size()));
  }
  return items[index];
}

const Nested& Nested::operator[](const std::string& name) const {
  const auto found = fields.find(name);
  if (found != fields.end()) return found->second;
  std::string names;
  for (const auto& [own, part] : fields) names += (names.empty() ? "" : ", ") + own;
  throw Error(ErrorCode::kUsage,
              "there is no part '" + name + "'; those are " + (names.empty() ? "none" : names));
}

const Tensor& Values::at(size_t index) const {
  if (index >= values_.size()) {
    throw Error(ErrorCode::kUsage, "value " + std::to_string(index) + " of " +
                                       std::to_string(values_.size()) + " values");
  }
  return values_[index].second;
}

const Tensor& Values::at(std::string_view name) const {
  std::string names;
  for (const auto& [own, value] : values_) {
    if (own == name) return value;
    names += (names.empty() ? "" : ", ") + own;
  }
  throw Error(ErrorCode::kUsage,
              "there is no value '" + std::string(name) + "'; those are " + names);
}

bool Values::contains(std::string_view name) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const auto& value) { return value.first == name; });
}

Nested Values::nested() const {
  Nested root;
  for (const auto& [name, tensor] : values_) {
    Nested* at = &root;
    for (const std::string& part : parts_of(name)) at = &at->fields[part];
    at->tensor = tensor;
  }
  for (auto& [name, part] : root.fields) make_lists(part);
  return root;
}

}  // namespace trainrt
