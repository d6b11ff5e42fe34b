#include "trainrt/tensor.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "tests/support/failure.h"

using namespace trainrt;
using testing::contains;
using testing::failure;

namespace {

uint16_t half_bits(double v) {
  const Tensor t = Tensor::scalar(v).to(DType::kFloat16);
  return *static_cast<const uint16_t*>(t.raw());
}

float half_value(uint16_t bits) {
  return Tensor::view(&bits, DType::kFloat16, {1}).to(DType::kFloat32).data<float>()[0];
}

}  // namespace

TEST_CASE("tensors start zeroed, aligned and of the asked shape") {
  const Tensor t(DType::kFloat32, {2, 3});
  CHECK(t.size() == 6);
  CHECK(t.bytes() == 24);
  CHECK(t.rank() == 2);
  CHECK(reinterpret_cast<uintptr_t>(t.raw()) % 64 == 0);
  for (float v : t.data<float>()) CHECK(v == 0.0f);
}

TEST_CASE("a default tensor is undefined, an empty one is not") {
  CHECK_FALSE(Tensor().defined());
  const Tensor empty(DType::kInt64, {0, 5});
  CHECK(empty.defined());
  CHECK(empty.size() == 0);
  CHECK(empty.clone().shape() == Shape{0, 5});
}

TEST_CASE("element counts refuse what cannot be") {
  CHECK(element_count(Shape{}) == 1);
  CHECK(element_count(Shape{int64_t{1} << 40, int64_t{1} << 40, 0}) == 0);
  CHECK_THROWS_AS(element_count(Shape{int64_t{1} << 40, int64_t{1} << 40}), Error);
  CHECK_THROWS_AS(element_count(Shape{2, -1}), Error);
  CHECK_THROWS_AS(Tensor(DType::kFloat32, {int64_t{1} << 50}), Error);
}

TEST_CASE("from checks the number of values") {
  CHECK(Tensor::from<int64_t>({1, 2, 3}, {3}).to_ints() == std::vector<int64_t>{1, 2, 3});
  CHECK(contains(failure(
                     [] {
                       Tensor::from<float>({1, 2, 3}, {2});
                     },
                     ErrorCode::kInput),
                 "Tensor::from: 3 values for shape [2], which has 2"));
}

TEST_CASE("typed access refuses another type") {
  Tensor t = Tensor::scalar<float>(1);
  CHECK_THROWS_AS(t.data<double>(), Error);
  CHECK_THROWS_AS(t.to_ints(), Error);
}

TEST_CASE("copies share, clones do not") {
  Tensor a = Tensor::from<float>({1, 2}, {2});
  Tensor b = a, c = a.clone();
  a.data<float>()[0] = 9;
  CHECK(b.data<float>()[0] == 9);
  CHECK(c.data<float>()[0] == 1);
}

TEST_CASE("reshape and rows share the bytes") {
  Tensor a = Tensor::from<int32_t>({0, 1, 2, 3, 4, 5}, {3, 2});
  Tensor r = a.rows(1, 3);
  CHECK(r.shape() == Shape{2, 2});
  CHECK(r.data<int32_t>()[0] == 2);
  r.data<int32_t>()[0] = 7;
  CHECK(a.reshape({6}).data<int32_t>()[2] == 7);
  CHECK_THROWS_AS(a.reshape({4}), Error);
  CHECK_THROWS_AS(a.rows(2, 4), Error);
  CHECK(a.rows(1, 1).size() == 0);
}

TEST_CASE("a view keeps its owner alive") {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor t = Tensor::view(owner->data(), DType::kFloat32, {3}, owner);
  owner.reset();
  CHECK_FALSE(watch.expired());
  CHECK(t.data<float>()[2] == 3);
  t = Tensor();
  CHECK(watch.expired());
}

TEST_CASE("strides are those of dense rows") {
  CHECK(Tensor(DType::kFloat32, {2, 3, 4}).strides() == std::vector<int64_t>{12, 4, 1});
  CHECK(Tensor(DType::kInt8, {5}).strides() == std::vector<int64_t>{1});
  CHECK(Tensor::scalar(1.0f).strides().empty());
  CHECK(Tensor(DType::kFloat32, {2, 0, 3}).strides() == std::vector<int64_t>{3, 3, 1});
  CHECK(Tensor(DType::kFloat32, {4, 2}).rows(1, 3).strides() == std::vector<int64_t>{2, 1});
  const int64_t large = int64_t{1} << 40;
  CHECK(Tensor(DType::kFloat32, {0, large, large}).strides()[2] == 1);
}

TEST_CASE("tensors are on the CPU") {
  CHECK(Tensor(DType::kFloat32, {2}).device() == Device{});
  CHECK(to_string(Tensor().device()) == "cpu");
}

TEST_CASE("a view of a span shares the caller's memory, both ways") {
  std::vector<double> values = {1, 2, 3, 4, 5, 6};
  Tensor t = Tensor::view(std::span(values), {2, 3});
  CHECK(t.dtype() == DType::kFloat64);
  CHECK(t.raw() == values.data());
  t.rows(1, 2).data<double>()[0] = 40;
  CHECK(values[3] == 40);
  values[0] = 10;
  CHECK(t.data<double>()[0] == 10);
  std::array<int32_t, 4> fixed = {7, 8, 9, 10};
  CHECK(Tensor::view(std::span(fixed), {4}).to_ints().back() == 10);
}

TEST_CASE("a view of a span with an owner needs nobody else") {
  auto owner = std::make_shared<std::vector<int8_t>>(std::vector<int8_t>{1, 2});
  const std::weak_ptr<std::vector<int8_t>> watch = owner;
  Tensor rows;
  {
    const Tensor t = Tensor::view(std::span(*owner), {2, 1}, owner);
    rows = t.rows(1, 2).reshape({1});
  }
  owner.reset();
  REQUIRE_FALSE(watch.expired());
  CHECK(rows.item() == 2);
  rows = Tensor();
  CHECK(watch.expired());
}

TEST_CASE("a view has as many elements as its span") {
  std::vector<float> five(5), none;
  const auto view = [&](const Shape& shape) {
    return failure([&] { Tensor::view(std::span(five), shape); }, ErrorCode::kInput);
  };
  CHECK(contains(view({2, 3}), "Tensor::view: 5 values for shape [2,3], which has 6"));
  CHECK(contains(view({}), "5 values for shape [], which has 1"));
  CHECK(contains(view({0}), "5 values for shape [0], which has 0"));
  const Tensor empty = Tensor::view(std::span(none), {0, 7});
  CHECK(empty.defined());
  CHECK(empty.shape() == Shape{0, 7});
  CHECK(contains(failure([] { Tensor::view(nullptr, DType::kFloat32, {3}); }, ErrorCode::kInput),
                 "null data for shape [3]"));
}

TEST_CASE("conversion to integers truncates and saturates") {
  const Tensor t = Tensor::from<double>({1.9, -1.9, 1e30, -1e30, NAN}, {5});
  CHECK(t.to(DType::kInt32).to_ints() ==
        std::vector<int64_t>{1, -1, std::numeric_limits<int32_t>::max(),
                             std::numeric_limits<int32_t>::min(), 0});
  CHECK(t.to(DType::kUInt8).to_ints() == std::vector<int64_t>{1, 0, 255, 0, 0});
}

TEST_CASE("conversion to bool asks for non-zero") {
  CHECK(Tensor::from<double>({0.0, 0.5, -3, NAN}, {4}).to(DType::kBool).to_ints() ==
        std::vector<int64_t>{0, 1, 1, 1});
}

TEST_CASE("float16 rounds to nearest even and keeps its special values") {
  CHECK(half_bits(1.0) == 0x3C00);
  CHECK(half_bits(-2.0) == 0xC000);
  CHECK(half_bits(65504.0) == 0x7BFF);
  CHECK(half_bits(65519.0) == 0x7BFF);
  CHECK(half_bits(65520.0) == 0x7C00);
  CHECK(half_bits(0x1p-24) == 0x0001);
  CHECK(half_bits(0x1p-25) == 0x0000);        // tie to even
  CHECK(half_bits(0x1.8p-24) == 0x0002);      // tie to even
  CHECK(half_bits(0x1p-14) == 0x0400);        // smallest normal
  CHECK(half_bits(1.0 + 0x1p-11) == 0x3C00);  // tie to even
  CHECK(half_bits(1.0 + 0x1.8p-10) == 0x3C02);
  CHECK(half_bits(-0.0) == 0x8000);
  CHECK(std::isnan(half_value(half_bits(NAN))));
}

TEST_CASE("every finite float16 survives the way through float32") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7C00u) == 0x7C00u && (bits & 0x3FFu)) continue;  // NaN
    const auto h = static_cast<uint16_t>(bits);
    if (half_bits(half_value(h)) != h) FAIL("float16 bits " << bits);
  }
}

TEST_CASE("bfloat16 rounds to nearest even") {
  const Tensor t = Tensor::from<float>({1.0f, 1.00390625f, 1.01171875f}, {3}).to(DType::kBFloat16);
  const auto back = t.to(DType::kFloat32);
  CHECK(back.data<float>()[0] == 1.0f);
  CHECK(back.data<float>()[1] == 1.0f);
  CHECK(back.data<float>()[2] == 1.015625f);
}

TEST_CASE("fill converts to the element type") {
  Tensor t(DType::kUInt8, {3});
  t.fill(7.9);
  CHECK(t.to_ints() == std::vector<int64_t>{7, 7, 7});
  Tensor h(DType::kBFloat16, {2});
  h.fill(2);
  CHECK(h.to(DType::kFloat64).data<double>()[1] == 2.0);
}

TEST_CASE("copy_from names both types when they differ") {
  Tensor a(DType::kFloat32, {2});
  a.copy_from(Tensor::from<float>({3, 4}, {2}));
  CHECK(a.data<float>()[1] == 4);
  try {
    a.copy_from(Tensor(DType::kFloat32, {3}));
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("float32[3] into float32[2]") != std::string::npos);
  }
}

TEST_CASE("dtype names parse back") {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    DType back{};
    REQUIRE(parse_dtype(dtype_name(static_cast<DType>(i)), &back));
    CHECK(back == static_cast<DType>(i));
  }
  DType unused{};
  CHECK_FALSE(parse_dtype("float", &unused));
}
