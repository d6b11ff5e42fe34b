#include "trainrt/flat.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "tests/runtime/models.h"
#include "tests/support/failure.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

constexpr size_t kSize = 4 * 8 + 8 + 8 * 3 + 3;  // of mlp_model()

TEST_CASE("flat values are the parameters one after the other, as they lie in the file") {
  Module m = testing::load(testing::mlp_model(), exact());
  REQUIRE(flat_size(m) == static_cast<int64_t>(kSize));
  std::vector<double> values(kSize);
  get_flat(m, values);
  size_t at = 0;
  for (const Parameter& p : m.parameters()) {
    const Tensor value = p.value();
    for (const double v : value.data<double>()) CHECK(values[at++] == v);
  }
  CHECK(at == kSize);
}

TEST_CASE("values that were set flat are what the model computes with") {
  Module a = testing::load(testing::mlp_model(), exact());
  Module b = testing::load(testing::mlp_model(), exact());
  std::vector<double> values(kSize);
  get_flat(a, values);
  for (double& v : values) v = 2 * v + 0.125;
  set_flat(a, values);
  std::vector<double> back(kSize);
  get_flat(a, back);
  CHECK(back == values);
  const Tensor x = numbers({2, 4}, 7);
  CHECK(largest_difference(a.forward({x})[0], b.forward({x})[0]) > 0.1);
  set_flat(b, values);
  CHECK(largest_difference(a.forward({x})[0], b.forward({x})[0]) == 0);
}

TEST_CASE("flat numbers convert to and from the working type") {
  Module wide = testing::load(testing::mlp_model(), exact());
  Module narrow = testing::load(testing::mlp_model());
  std::vector<float> a(kSize), b(kSize);
  get_flat(wide, a);
  get_flat(narrow, b);
  CHECK(a == b);  // the file stores float32
  std::vector<double> fine(kSize, 0.1);
  set_flat(narrow, fine);
  CHECK(narrow.parameters()[0].value().data<float>()[0] == 0.1f);
  set_flat(wide, fine);
  CHECK(wide.parameters()[0].value().data<double>()[0] == 0.1);
}

TEST_CASE("flat gradients: absent ones are zeros, frozen parameters keep none") {
  Module m = testing::load(testing::mlp_model(), exact());
  m.get_parameter("fc1.bias").requires_grad_(false);
  std::vector<double> grads(kSize, 5);
  get_flat_grad(m, grads);
  CHECK(grads == std::vector<double>(kSize));

  m.forward({numbers({3, 4}, 3)});
  m.backward({numbers({3, 3}, 4)});
  get_flat_grad(m, grads);
  size_t at = 0;
  for (const Parameter& p : m.parameters()) {
    if (p.name() == "fc1.bias") {
      for (int64_t i = 0; i < p.size(); ++i) CHECK(grads[at++] == 0);
      continue;
    }
    const Tensor grad = p.grad();
    for (const double g : grad.data<double>()) CHECK(grads[at++] == g);
  }

  for (size_t i = 0; i < kSize; ++i) grads[i] = static_cast<double>(i);
  set_flat_grad(m, grads);
  CHECK_FALSE(m.get_parameter("fc1.bias").grad().defined());
  CHECK(m.get_parameter("fc1.weight").grad().data<double>()[31] == 31);
  CHECK(m.get_parameter("fc2.weight").grad().data<double>()[0] == 40);
  // A copy: what the caller does with its numbers later changes nothing.
  grads[40] = -1;
  CHECK(m.get_parameter("fc2.weight").grad().data<double>()[0] == 40);
}

TEST_CASE("flat numbers of another count are refused, and nothing changes") {
  Module m = testing::load(testing::mlp_model(), exact());
  std::vector<double> before(kSize), after(kSize);
  get_flat(m, before);
  std::vector<double> few(kSize - 1, 1), many(kSize + 1, 1);
  std::vector<float> few_floats(kSize - 1, 1);
  for (const std::string& text :
       {failure([&] { get_flat(m, std::span<double>(few)); }, ErrorCode::kInput),
        failure([&] { set_flat(m, std::span<const double>(few)); }, ErrorCode::kInput),
        failure([&] { set_flat(m, std::span<const float>(few_floats)); }, ErrorCode::kInput),
        failure([&] { get_flat_grad(m, std::span<double>(few)); }, ErrorCode::kInput),
        failure([&] { set_flat_grad(m, std::span<const double>(few)); }, ErrorCode::kInput)}) {
    CHECK(contains(text, "67 elements"));
    CHECK(contains(text, "given 66"));
  }
  CHECK(contains(failure([&] { set_flat(m, std::span<const double>(many)); }, ErrorCode::kInput),
                 "given 68"));
  get_flat(m, after);
  CHECK(after == before);
}

}  // namespace
}  // namespace trainrt
