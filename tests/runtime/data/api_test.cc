// The files of trainrt/data.h: what is written comes back, what is broken is named.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"
#include "trainrt/data.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::failure;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

Tensor pattern(DType dtype, const Shape& shape) {
  Tensor t(dtype, shape);
  auto* bytes = static_cast<uint8_t*>(t.raw());
  for (size_t i = 0; i < t.bytes(); ++i) {
    bytes[i] = static_cast<uint8_t>(dtype == DType::kBool ? i % 2 : i * 37 + 1);
  }
  return t;
}

void check_same(const Tensor& a, const Tensor& b) {
  CHECK(a.dtype() == b.dtype());
  CHECK(a.shape() == b.shape());
  REQUIRE(a.bytes() == b.bytes());
  CHECK((a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0));
}

std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) all.push_back(static_cast<DType>(i));
  return all;
}

/// Header and data of a .safetensors file.
std::string safetensors(const std::string& header, std::string_view data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data);
}

/// Reads damaged copies of `good`; nothing but an Error that names the file may come out.
template <typename F>
void damage(const TemporaryFolder& folder, const std::string& good, F&& read) {
  std::mt19937 random(11);
  size_t refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    for (int k = 0; k < 3; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    if (i % 3 == 0) bad.resize(random() % bad.size());
    const std::string path = folder.write("damaged", bad);
    try {
      read(path);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kFile);
      CHECK(contains(error.what(), path));
      ++refused;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("npy keeps every type, shape and value", "[data]") {
  const TemporaryFolder folder;
  for (const DType dtype : all_dtypes()) {
    if (dtype == DType::kBFloat16) continue;
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{2, 3}, Shape{2, 0, 3}}) {
      const Tensor t = pattern(dtype, shape);
      save_npy(folder.file("a.npy"), t);
      check_same(load_npy(folder.file("a.npy")), t);
    }
  }
}

TEST_CASE("npy writes bfloat16 as float32", "[data]") {
  const TemporaryFolder folder;
  save_npy(folder.file("a.npy"), Tensor::from<float>({1.5f, -2}, {2}).to(DType::kBFloat16));
  check_same(load_npy(folder.file("a.npy")), Tensor::from<float>({1.5f, -2}, {2}));
}

TEST_CASE("npy writes the bytes that NumPy does", "[data]") {
  const TemporaryFolder folder;
  save_npy(folder.file("a.npy"), Tensor::from<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3}));
  std::string expected("\x93NUMPY\1\0\x76\0", 10);
  expected += "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }";
  expected.resize(127, ' ');
  expected += '\n';
  for (char v = 1; v <= 6; ++v) expected += std::string{v, 0, 0, 0};
  CHECK(TemporaryFolder::read(folder.file("a.npy")) == expected);
}

TEST_CASE("broken npy files are refused by name", "[data]") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& bytes) {
    const std::string path = folder.write("x.npy", bytes);
    const std::string text = failure([&] { load_npy(path); }, ErrorCode::kFile);
    CHECK(contains(text, path));
    return text;
  };
  save_npy(folder.file("good.npy"), Tensor::from<float>({1, 2, 3}, {3}));
  const std::string good = TemporaryFolder::read(folder.file("good.npy"));
  CHECK(contains(message(good.substr(0, good.size() - 1)), "needs more data than the file holds"));
  CHECK(contains(message(good.substr(0, 40)), "cut off in its header"));
  CHECK(contains(message("no array"), "is not an .npy array"));
  CHECK(contains(message(""), "is not an .npy array"));
  std::string large = good;
  large.replace(large.find("(3,)"), 4, "(4611686018427387904,4)");
  large.erase(100, 19);  // the header keeps its length
  CHECK(contains(message(large), "too large"));
  std::string text = good;
  text.replace(text.find("<f4"), 3, "<U4");
  CHECK(contains(message(text), "text"));
  CHECK(contains(failure([&] { load_npy(folder.file("absent.npy")); }, ErrorCode::kFile),
                 "absent.npy"));
  damage(folder, good, load_npy);
}

TEST_CASE("a tensor that cannot be written leaves the file as it was", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a", "before");
  const Tensor one = Tensor::scalar<float>(1);
  CHECK(contains(failure([&] { save_npy(path, Tensor()); }, ErrorCode::kInput), "undefined"));
  CHECK(contains(failure(
                     [&] {
                       save_npz(path, {{"bad", Tensor()}});
                     },
                     ErrorCode::kInput),
                 "'bad'"));
  const auto save = [&](const NamedTensors& tensors) {
    return failure([&] { save_safetensors(path, tensors); }, ErrorCode::kInput);
  };
  CHECK(contains(save({{"x", one}, {"bad", Tensor()}}), "'bad' is undefined"));
  CHECK(contains(save({{"x", one}, {"x", one}}), "'x' occurs twice"));
  CHECK(contains(save({{"__metadata__", one}}), "reserves"));
  CHECK(contains(save({{"\xff", one}}), "UTF-8"));
  CHECK(TemporaryFolder::read(path) == "before");
  CHECK(folder.entries() == 1);
  const std::string nowhere = folder.file("no/such/folder/x");
  CHECK(contains(failure([&] { save_npy(nowhere, one); }, ErrorCode::kFile), nowhere));
  CHECK(contains(failure([&] { save_safetensors(nowhere, {}); }, ErrorCode::kFile), nowhere));
}

TEST_CASE("safetensors keeps order, names, types and values", "[data]") {
  const TemporaryFolder folder;
  NamedTensors tensors;
  for (const DType dtype : all_dtypes()) {
    const std::string name(dtype_name(dtype));
    tensors.emplace_back("z." + name, pattern(dtype, {3}));
    tensors.emplace_back("a." + name, pattern(dtype, {}));
    tensors.emplace_back("\u00fc \"" + name, pattern(dtype, {0, 2}));
  }
  save_safetensors(folder.file("a"), tensors);
  const NamedTensors back = load_safetensors(folder.file("a"));
  REQUIRE(back.size() == tensors.size());
  for (size_t i = 0; i < back.size(); ++i) {
    CHECK(back[i].first == tensors[i].first);
    check_same(back[i].second, tensors[i].second);
  }
  save_safetensors(folder.file("none"), {});
  CHECK(load_safetensors(folder.file("none")).empty());
}

TEST_CASE("safetensors aligns every tensor and leaves no holes", "[data]") {
  const TemporaryFolder folder;
  NamedTensors tensors;
  for (const DType dtype : all_dtypes()) {
    tensors.emplace_back(std::string(dtype_name(dtype)), pattern(dtype, {3}));
  }
  save_safetensors(folder.file("a"), tensors);
  const std::string bytes = TemporaryFolder::read(folder.file("a"));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  REQUIRE(length % 8 == 0);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  std::map<uint64_t, uint64_t> ranges;
  for (const auto& [name, tensor] : tensors) {
    const auto begin = header[name]["data_offsets"][0].get<uint64_t>();
    CHECK(begin % dtype_size(tensor.dtype()) == 0);
    ranges[begin] = header[name]["data_offsets"][1].get<uint64_t>();
  }
  uint64_t end = 0;
  for (const auto& [from, to] : ranges) {
    CHECK(from == end);
    end = to;
  }
  CHECK(8 + length + end == bytes.size());
}

TEST_CASE("safetensors skips metadata and reads bools as 0 and 1", "[data]") {
  const TemporaryFolder folder;
  const NamedTensors back = load_safetensors(
      folder.write("a", safetensors(R"({"__metadata__":{"format":"pt"},)"
                                    R"("b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})",
                                    std::string_view("\0\1\7", 3))));
  REQUIRE(back.size() == 1);
  CHECK(back[0].first == "b");
  check_same(back[0].second, Tensor::from<bool>({false, true, true}, {3}));
}

TEST_CASE("broken safetensors files are refused by name", "[data]") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& bytes) {
    const std::string path = folder.write("x", bytes);
    const std::string text = failure([&] { load_safetensors(path); }, ErrorCode::kFile);
    CHECK(contains(text, path));
    return text;
  };
  const auto entry = [&](const std::string& text) {
    const std::string got = message(safetensors("{\"w\":" + text + "}", "12345678"));
    CHECK(contains(got, "tensor 'w'"));
    return got;
  };
  CHECK(contains(entry(R"({"dtype":"F8","shape":[2],"data_offsets":[0,8]})"), "dtype \"F8\""));
  CHECK(contains(entry(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
                 "shape [3] does not fit its data of 8 bytes"));
  CHECK(
      contains(entry(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})"), "outside the file"));
  CHECK(contains(entry(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), "bad shape"));
  CHECK(contains(entry(R"({"dtype":"F32","shape":[4611686018427387903,9],"data_offsets":[0,8]})"),
                 "too large"));
  CHECK(contains(entry("3"), "expected"));
  const std::string w = R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(contains(message(safetensors("{" + w + "," + w + "}", "12345678")), "occurs twice"));
  CHECK(contains(message(safetensors("{" + w, "12345678")), "not a JSON object"));
  CHECK(contains(message(std::string(20, '\xff')), "is not a safetensors file"));
  CHECK(contains(message("short"), "cut off"));
  CHECK(contains(failure([&] { load_safetensors(folder.file("no")); }, ErrorCode::kFile), "no"));
  damage(folder, safetensors("{" + w + "}", "12345678"), load_safetensors);
}

}  // namespace
}  // namespace trainrt
