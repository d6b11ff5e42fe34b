// Named tensors in order: what a model returns, and what hooks see.
#ifndef TRAINRT_VALUES_H_
#define TRAINRT_VALUES_H_

#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainrt/tensor.h"

namespace trainrt {

/// A tensor, a list or a map of such: what the names of outputs ("a.0", "a.b", "s[1]") spell out.
struct Nested {
  Tensor tensor;
  std::vector<Nested> items;             // of numbered parts, in order
  std::map<std::string, Nested> fields;  // of named parts

  bool is_tensor() const { return tensor.defined(); }
  /// Throw Error(kUsage) when there is no such part.
  const Nested& operator[](size_t index) const;
  const Nested& operator[](const std::string& name) const;
};

/// Results of a forward call, in the file's order, or what a hook sees. The tensors are the
/// caller's.
class Values {
 public:
  Values() = default;
  explicit Values(std::vector<std::pair<std::string, Tensor>> values, uint64_t call = 0)
      : values_(std::move(values)), call_(call) {}

  size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  const Tensor& at(size_t index) const;           // throws Error(kUsage) when out of range
  const Tensor& at(std::string_view name) const;  // throws Error(kUsage) naming those there
  template <std::integral I>
  const Tensor& operator[](I index) const {
    return at(static_cast<size_t>(index));
  }
  const Tensor& operator[](std::string_view name) const { return at(name); }
  const Tensor& operator[](const char* name) const { return at(std::string_view(name)); }
  bool contains(std::string_view name) const;
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  /// Number of the forward call that made them.
  uint64_t call() const { return call_; }
  /// The structure that the exporter flattened: "a.0" and "a.1" are items of field "a". Parts that
  /// are numbered from 0 without a gap are a list, all others a map.
  Nested nested() const;

 private:
  std::vector<std::pair<std::string, Tensor>> values_;
  uint64_t call_ = 0;
};

using Outputs = Values;

}  // namespace trainrt

#endif  // TRAINRT_VALUES_H_
