#include "trainrt/module.h"

namespace trainrt {

const Tensor& Outputs::at(size_t index) const {
  if (index >= values_.size()) {
    throw Error(ErrorCode::kUsage, "output " + std::to_string(index) + " of " +
                                       std::to_string(values_.size()) + " outputs");
  }
  return values_[index].second;
}

const Tensor& Outputs::at(std::string_view name) const {
  std::string names;
  for (const auto& [own, value] : values_) {
    if (own == name) return value;
    names += (names.empty() ? "" : ", ") + own;
  }
  throw Error(ErrorCode::kUsage,
              "there is no output '" + std::string(name) + "'; those are " + names);
}

bool Outputs::contains(std::string_view name) const {
  for (const auto& value : values_) {
    if (value.first == name) return true;
  }
  return false;
}

}  // namespace trainrt
