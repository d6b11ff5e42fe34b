#include "runtime/data/loader.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <numeric>

#include "trainrt/error.h"

namespace trainrt {
namespace {

TensorDataset numbered(int64_t n) {
  std::vector<int64_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), int64_t{0});
  return TensorDataset({{"target", Tensor::of_ints(ids)},
                        {"x", Tensor::of_ints(ids).to(DType::kFloat32).reshape({n, 1})}});
}

std::vector<int64_t> epoch_ids(Loader& loader, int64_t epoch) {
  std::vector<int64_t> out;
  for (int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
    for (const int64_t id : loader.batch(epoch, b).at("target").to_ints()) out.push_back(id);
  }
  return out;
}

TEST_CASE("a permutation holds each index once", "[loader]") {
  for (const int64_t n : {0, 1, 2, 17, 1000}) {
    std::vector<int64_t> p = permutation(n, 3, 4);
    std::sort(p.begin(), p.end());
    for (int64_t i = 0; i < n; ++i) CHECK(p[static_cast<size_t>(i)] == i);
  }
}

TEST_CASE("a permutation depends on seed and epoch only", "[loader]") {
  CHECK(permutation(100, 1, 0) == permutation(100, 1, 0));
  CHECK(permutation(100, 1, 0) != permutation(100, 2, 0));
  CHECK(permutation(100, 1, 0) != permutation(100, 1, 1));
}

TEST_CASE("first places are spread evenly", "[loader]") {
  std::vector<int> counts(5, 0);
  for (int64_t epoch = 0; epoch < 5000; ++epoch) {
    ++counts[static_cast<size_t>(permutation(5, 9, epoch)[0])];
  }
  for (const int count : counts) {
    CHECK(count > 850);
    CHECK(count < 1150);
  }
}

TEST_CASE("the last partial batch is used", "[loader]") {
  const TensorDataset data = numbered(10);
  Loader loader(data, {.batch = 4, .seed = 1});
  CHECK(loader.batches_per_epoch() == 3);
  CHECK(loader.samples(2) == 2);
  CHECK(loader.batch(0, 2).at("x").shape() == Shape{2, 1});
  std::vector<int64_t> ids = epoch_ids(loader, 0);
  std::sort(ids.begin(), ids.end());
  CHECK(ids == epoch_ids(*std::make_unique<Loader>(data, LoaderOptions{.shuffle = false}), 0));
}

TEST_CASE("drop_last leaves the partial batch out", "[loader]") {
  const TensorDataset data = numbered(10);
  Loader loader(data, {.batch = 4, .drop_last = true});
  CHECK(loader.batches_per_epoch() == 2);
}

TEST_CASE("any batch of any epoch can be had directly", "[loader]") {
  const TensorDataset data = numbered(23);
  Loader through(data, {.batch = 5, .seed = 7}), resumed(data, {.batch = 5, .seed = 7});
  for (int64_t epoch = 0; epoch < 3; ++epoch) epoch_ids(through, epoch);
  CHECK(through.batch(3, 2).at("target").to_ints() == resumed.batch(3, 2).at("target").to_ints());
}

TEST_CASE("arrays of one batch stay together", "[loader]") {
  const TensorDataset data = numbered(23);
  Loader loader(data, {.batch = 6, .seed = 2});
  const TensorMap batch = loader.batch(1, 1);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(batch.at("x").data<float>()[i] ==
          static_cast<float>(batch.at("target").data<int64_t>()[i]));
  }
}

TEST_CASE("without shuffling the order is that of the file", "[loader]") {
  const TensorDataset data = numbered(7);
  Loader loader(data, {.batch = 3, .shuffle = false});
  CHECK(epoch_ids(loader, 0) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(epoch_ids(loader, 5) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("whole arrays need not agree on their first axis", "[loader]") {
  const TensorDataset data(
      {{"a", Tensor(DType::kFloat32, {3, 2})}, {"b", Tensor(DType::kFloat32, {5})}});
  Loader loader(data, {.whole = true});
  CHECK(loader.batches_per_epoch() == 1);
  CHECK(loader.batch(0, 0).at("b").shape() == Shape{5});
}

TEST_CASE("arrays that disagree are named", "[loader]") {
  const TensorDataset data(
      {{"a", Tensor(DType::kFloat32, {3, 2})}, {"b", Tensor(DType::kFloat32, {5})}});
  CHECK_THROWS_MATCHES(
      Loader(data, {}), Error,
      Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("'a' has 3, 'b' has 5")));
}

TEST_CASE("scalars go whole into every batch", "[loader]") {
  const TensorDataset data(
      {{"rate", Tensor::scalar(2.0f)}, {"x", Tensor(DType::kFloat32, {4, 2})}});
  Loader loader(data, {.batch = 3});
  CHECK(loader.batch(0, 1).at("rate").item() == 2.0);
  CHECK(loader.batch(0, 1).at("x").shape() == Shape{1, 2});
}

TEST_CASE("empty data gives no batch", "[loader]") {
  const TensorDataset data({{"x", Tensor(DType::kFloat32, {0, 2})}});
  CHECK_THROWS_AS(Loader(data, {}), Error);
}

TEST_CASE("another seed gives another order", "[loader]") {
  const TensorDataset data = numbered(50);
  Loader a(data, {.batch = 50, .seed = 1}), b(data, {.batch = 50, .seed = 2});
  const std::vector<int64_t> first = epoch_ids(a, 0);
  CHECK(first != epoch_ids(b, 0));
  b.set_seed(1);
  CHECK(first == epoch_ids(b, 0));
}

}  // namespace
}  // namespace trainrt
