// What the programs on the digits data share: batches and accuracy.
#ifndef EXAMPLES_CPP_DIGITS_H_
#define EXAMPLES_CPP_DIGITS_H_

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "trainrt/tensor.h"

namespace digits {

/// The samples `indices` of every array.
inline trainrt::TensorMap take(const trainrt::TensorMap& arrays, std::span<const int64_t> indices) {
  trainrt::TensorMap batch;
  for (const auto& [name, array] : arrays) {
    trainrt::Shape shape = array.shape();
    shape[0] = static_cast<int64_t>(indices.size());
    trainrt::Tensor part(array.dtype(), shape);
    for (int64_t i = 0; i < shape[0]; ++i) {
      const int64_t from = indices[static_cast<size_t>(i)];
      part.rows(i, i + 1).copy_from(array.rows(from, from + 1));
    }
    batch[name] = part;
  }
  return batch;
}

/// All samples once, in random order, in batches of `size`; the last may be smaller.
inline std::vector<trainrt::TensorMap> shuffled(const trainrt::TensorMap& arrays, int64_t size,
                                                std::mt19937& random) {
  std::vector<int64_t> order(static_cast<size_t>(arrays.at("x").shape()[0]));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<trainrt::TensorMap> batches;
  const std::span<const int64_t> all(order);
  for (size_t begin = 0; begin < all.size(); begin += static_cast<size_t>(size)) {
    batches.push_back(
        take(arrays, all.subspan(begin, std::min(all.size() - begin, static_cast<size_t>(size)))));
  }
  return batches;
}

/// The index of the largest score in each row.
inline std::vector<int64_t> best(const trainrt::Tensor& scores) {
  const auto classes = static_cast<size_t>(scores.shape()[1]);
  std::vector<int64_t> found;
  for (auto rest = scores.data<float>(); !rest.empty(); rest = rest.subspan(classes)) {
    const auto row = rest.first(classes);
    found.push_back(std::max_element(row.begin(), row.end()) - row.begin());
  }
  return found;
}

/// The share of rows whose largest score is at the right class.
inline double accuracy(const trainrt::Tensor& scores, const trainrt::Tensor& target) {
  const std::vector<int64_t> found = best(scores), right = target.to_ints();
  int64_t hits = 0;
  for (size_t i = 0; i < right.size(); ++i) hits += found[i] == right[i];
  return static_cast<double>(hits) / static_cast<double>(right.size());
}

}  // namespace digits

#endif  // EXAMPLES_CPP_DIGITS_H_
