// trainrt/dlpack.h comes first: it needs no header of DLPack.
#include "trainrt/dlpack.h"

#include <dlpack/dlpack.h>

#include <array>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "tests/support/failure.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::failure;

template <typename Managed>
Managed* lend(const Tensor& t) {
  if constexpr (std::is_same_v<Managed, DLManagedTensor>) {
    return to_dlpack(t);
  } else {
    return to_dlpack_versioned(t);
  }
}

/// Another library's tensor, which counts how often it is given back.
template <typename Managed>
struct Foreign {
  explicit Foreign(Shape dims, DLDataType type = {kDLFloat, 32, 1}) : shape(std::move(dims)) {
    std::iota(data.begin(), data.end(), 0.0f);
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) managed.version = {1, 0};
    managed.dl_tensor = {data.data(),
                         {kDLCPU, 0},
                         static_cast<int32_t>(shape.size()),
                         type,
                         shape.data(),
                         nullptr,
                         0};
    managed.manager_ctx = &returned;
    managed.deleter = [](Managed* self) { ++*static_cast<int*>(self->manager_ctx); };
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  void set_strides(std::vector<int64_t> values) {
    strides = std::move(values);
    managed.dl_tensor.strides = strides.data();
  }
  /// The message of a refusal, after which the tensor still belongs to the other library.
  std::string refusal(DlpackCopy copy = DlpackCopy::kNever, ErrorCode code = ErrorCode::kInput) {
    std::string text = failure([&] { from_dlpack(&managed, copy); }, code);
    CHECK(returned == 0);
    return text;
  }

  alignas(8) std::array<float, 24> data = {};
  Shape shape;
  std::vector<int64_t> strides;
  Managed managed = {};
  int returned = 0;
};
using Versioned = Foreign<DLManagedTensorVersioned>;

std::vector<float> floats(const Tensor& t) {
  return {t.data<float>().begin(), t.data<float>().end()};
}

TEMPLATE_TEST_CASE("an exported tensor shares its bytes and describes itself", "", DLManagedTensor,
                   DLManagedTensorVersioned) {
  Tensor t = Tensor::from<int16_t>({1, 2, 3, 4, 5, 6}, {1, 2, 3});
  TestType* managed = lend<TestType>(t);
  const DLTensor& out = managed->dl_tensor;
  CHECK(out.data == t.raw());
  CHECK(out.byte_offset == 0);
  CHECK(out.device.device_type == kDLCPU);
  CHECK(out.device.device_id == 0);
  REQUIRE(out.ndim == 3);
  CHECK(Shape(out.shape, out.shape + 3) == Shape{1, 2, 3});
  CHECK(Shape(out.strides, out.strides + 3) == Shape{6, 3, 1});
  if constexpr (std::is_same_v<TestType, DLManagedTensorVersioned>) {
    CHECK(managed->version.major == 1);
    CHECK(managed->flags == 0);
  }
  static_cast<int16_t*>(out.data)[5] = 60;
  CHECK(t.to_ints().back() == 60);
  managed->deleter(managed);
}

TEMPLATE_TEST_CASE("an exported tensor lives until its deleter is called", "", DLManagedTensor,
                   DLManagedTensorVersioned) {
  auto owner = std::make_shared<std::array<float, 2>>(std::array<float, 2>{1, 2});
  const std::weak_ptr<std::array<float, 2>> watch = owner;
  Tensor t = Tensor::view(std::span(*owner), {2}, owner);
  owner.reset();
  TestType* first = lend<TestType>(t);
  TestType* second = lend<TestType>(t);
  t = Tensor();
  first->deleter(first);
  REQUIRE_FALSE(watch.expired());
  CHECK(static_cast<float*>(second->dl_tensor.data)[1] == 2);
  second->deleter(second);
  CHECK(watch.expired());
}

TEMPLATE_TEST_CASE("every type and shape goes out and comes back", "", DLManagedTensor,
                   DLManagedTensorVersioned) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    for (const Shape& shape : {Shape{}, Shape{4}, Shape{2, 3}, Shape{3, 0, 2}, Shape{2, 1, 2, 1}}) {
      const Tensor t(static_cast<DType>(i), shape);
      const Tensor back = from_dlpack(lend<TestType>(t));
      INFO(dtype_name(t.dtype()) << to_string(shape));
      CHECK(back.dtype() == t.dtype());
      CHECK(back.shape() == shape);
      CHECK((back.raw() == t.raw()) == (t.size() > 0));
      CHECK(back.defined());
    }
  }
}

TEST_CASE("types have the codes of the standard") {
  const auto type = [](DType dtype) {
    DLManagedTensor* managed = to_dlpack(Tensor(dtype, {1}));
    const DLDataType t = managed->dl_tensor.dtype;
    managed->deleter(managed);
    CHECK(t.lanes == 1);
    return std::pair<int, int>(t.code, t.bits);
  };
  CHECK(type(DType::kFloat64) == std::pair<int, int>(kDLFloat, 64));
  CHECK(type(DType::kFloat16) == std::pair<int, int>(kDLFloat, 16));
  CHECK(type(DType::kBFloat16) == std::pair<int, int>(kDLBfloat, 16));
  CHECK(type(DType::kInt8) == std::pair<int, int>(kDLInt, 8));
  CHECK(type(DType::kUInt64) == std::pair<int, int>(kDLUInt, 64));
  CHECK(type(DType::kBool) == std::pair<int, int>(kDLBool, 8));
}

TEST_CASE("an empty tensor goes out with a null pointer") {
  DLManagedTensor* managed = to_dlpack(Tensor(DType::kFloat32, {0, 3}));
  CHECK(managed->dl_tensor.data == nullptr);
  managed->deleter(managed);
}

TEST_CASE("an undefined tensor cannot be exported") {
  CHECK(contains(failure([] { to_dlpack(Tensor()); }, ErrorCode::kInput), "undefined"));
  CHECK(contains(failure([] { to_dlpack_versioned(Tensor()); }, ErrorCode::kInput), "undefined"));
}

TEMPLATE_TEST_CASE("an imported tensor is given back by its last reader", "", DLManagedTensor,
                   DLManagedTensorVersioned) {
  Foreign<TestType> foreign({2, 3});
  {
    Tensor rows;
    {
      Tensor t = from_dlpack(&foreign.managed);
      CHECK(t.raw() == foreign.data.data());
      t.data<float>()[4] = 40;
      rows = t.rows(1, 2);
    }
    CHECK(foreign.returned == 0);
    CHECK(floats(rows) == std::vector<float>{3, 40, 5});
    CHECK(foreign.data[4] == 40);
  }
  CHECK(foreign.returned == 1);
}

TEST_CASE("a tensor without a deleter is fine") {
  Versioned foreign({2});
  foreign.managed.deleter = nullptr;
  CHECK(floats(from_dlpack(&foreign.managed)) == std::vector<float>{0, 1});
}

TEST_CASE("byte_offset counts") {
  Versioned foreign({2});
  foreign.managed.dl_tensor.byte_offset = 12;
  CHECK(floats(from_dlpack(&foreign.managed)) == std::vector<float>{3, 4});
}

TEST_CASE("strides of dense rows are shared, those of single steps ignored") {
  Versioned foreign({2, 1, 3});
  foreign.set_strides({3, 77, 1});
  const Tensor t = from_dlpack(&foreign.managed);
  CHECK(t.raw() == foreign.data.data());
}

TEST_CASE("strided data is refused, or copied when asked for") {
  struct Case {
    Shape shape;
    std::vector<int64_t> strides;
    size_t start;
    std::vector<float> expected;
  };
  const Case cases[] = {
      {{3, 2}, {1, 3}, 0, {0, 3, 1, 4, 2, 5}},  // transposed
      {{2, 2}, {6, 2}, 1, {1, 3, 7, 9}},        // every second of longer rows
      {{4}, {-1}, 3, {3, 2, 1, 0}},             // reversed
      {{2, 3}, {0, 1}, 0, {0, 1, 2, 0, 1, 2}},  // broadcast
      {{2, 1, 2}, {1, 5, 4}, 2, {2, 6, 3, 7}},  // with an axis of one step
      {{2, 2, 2}, {1, 2, 4}, 0, {0, 4, 2, 6, 1, 5, 3, 7}},
  };
  for (const Case& c : cases) {
    INFO(to_string(c.shape) << " " << to_string(c.strides));
    Versioned foreign(c.shape);
    foreign.set_strides(c.strides);
    foreign.managed.dl_tensor.byte_offset = 4 * c.start;
    const std::string text = foreign.refusal();
    CHECK(contains(text, "float32" + to_string(c.shape)));
    CHECK(contains(text, "strides are " + to_string(c.strides)));
    CHECK(contains(text, "DlpackCopy::kIfNeeded"));
    const Tensor t = from_dlpack(&foreign.managed, DlpackCopy::kIfNeeded);
    CHECK(foreign.returned == 1);
    CHECK(t.shape() == c.shape);
    CHECK(floats(t) == c.expected);
  }
}

TEST_CASE("read-only data is refused, or copied when asked for") {
  Versioned foreign({3});
  foreign.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  CHECK(contains(foreign.refusal(), "read-only"));
  Tensor t = from_dlpack(&foreign.managed, DlpackCopy::kIfNeeded);
  CHECK(foreign.returned == 1);
  t.fill(9);
  CHECK(foreign.data[1] == 1);
}

TEST_CASE("misaligned data is refused, or copied when asked for") {
  Versioned foreign({2}, {kDLUInt, 64, 1});
  foreign.managed.dl_tensor.byte_offset = 4;
  CHECK(contains(foreign.refusal(), "aligned"));
  const Tensor t = from_dlpack(&foreign.managed, DlpackCopy::kIfNeeded);
  CHECK(t.data<uint64_t>()[0] == 0x400000003f800000u);  // 1.0f and 2.0f
}

TEST_CASE("a copy can be asked for, and is made only where it is needed") {
  Versioned always({3}), shared({3});
  Tensor copy = from_dlpack(&always.managed, DlpackCopy::kAlways);
  CHECK(always.returned == 1);
  CHECK(copy.raw() != always.data.data());
  CHECK(floats(copy) == std::vector<float>{0, 1, 2});
  const Tensor t = from_dlpack(&shared.managed, DlpackCopy::kIfNeeded);
  CHECK(t.raw() == shared.data.data());
}

TEST_CASE("an empty tensor needs no data and is given back at once") {
  Versioned foreign({2, 0});
  foreign.managed.dl_tensor.data = nullptr;
  foreign.set_strides({5, 9});
  foreign.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  const Tensor t = from_dlpack(&foreign.managed);
  CHECK(foreign.returned == 1);
  CHECK(t.defined());
  CHECK(t.shape() == Shape{2, 0});
}

TEST_CASE("other devices are refused by name") {
  const auto device = [](int type, int id) {
    Versioned foreign({2});
    foreign.managed.dl_tensor.device = {static_cast<DLDeviceType>(type), id};
    return foreign.refusal(DlpackCopy::kIfNeeded);
  };
  CHECK(contains(device(kDLCUDA, 1), "on cuda:1;"));
  CHECK(contains(device(kDLROCM, 0), "on rocm:0;"));
  CHECK(contains(device(kDLMAIA, 0), "on maia:0;"));
  CHECK(contains(device(5, 0), "on type 5:0;"));
  CHECK(contains(device(1000, 2), "on type 1000:2;"));
  CHECK(contains(device(-1, 0), "on type -1:0;"));
}

TEST_CASE("elements without a DType are refused by name") {
  const auto type = [](DLDataType t) { return Versioned({1}, t).refusal(); };
  CHECK(contains(type({kDLComplex, 64, 1}), "complex64"));
  CHECK(contains(type({kDLFloat, 32, 4}), "float32 in vectors of 4"));
  CHECK(contains(type({kDLFloat, 8, 1}), "float8"));
  CHECK(contains(type({kDLInt, 4, 1}), "int4"));
  CHECK(contains(type({kDLBool, 1, 1}), "bool1"));
  CHECK(contains(type({kDLOpaqueHandle, 64, 1}), "handle64"));
  CHECK(contains(type({10, 8, 1}), "type 10 of 8 bits"));
}

TEST_CASE("malformed tensors are refused") {
  Versioned negative({2, -3});
  CHECK(contains(negative.refusal(), "negative dim in shape [2,-3]"));
  Versioned rank({2});
  rank.managed.dl_tensor.ndim = -1;
  CHECK(contains(rank.refusal(), "negative rank -1"));
  Versioned shapeless({2});
  shapeless.managed.dl_tensor.shape = nullptr;
  CHECK(contains(shapeless.refusal(), "no shape"));
  Versioned null({2});
  null.managed.dl_tensor.data = nullptr;
  CHECK(contains(null.refusal(), "null data for shape [2]"));
  Versioned large({int64_t{1} << 40, int64_t{1} << 40});
  CHECK(contains(large.refusal(DlpackCopy::kNever, ErrorCode::kMemory), "too large"));
  CHECK(contains(
      failure([] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); }, ErrorCode::kInput),
      "null pointer"));
  CHECK(contains(failure([] { from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)); },
                         ErrorCode::kInput),
                 "null pointer"));
}

TEST_CASE("only the major version matters") {
  Versioned minor({1}), major({1});
  minor.managed.version = {1, 99};
  CHECK(from_dlpack(&minor.managed).size() == 1);
  major.managed.version = {2, 1};
  major.managed.dl_tensor.ndim = -5;  // whatever lies there in another version is not read
  CHECK(contains(major.refusal(), "of DLPack 2.1, expected 1.x"));
}

TEST_CASE("a rank of 0 needs no shape") {
  Versioned foreign(Shape{});
  foreign.managed.dl_tensor.shape = nullptr;
  CHECK(from_dlpack(&foreign.managed).item() == 0);
}

}  // namespace
}  // namespace trainrt
