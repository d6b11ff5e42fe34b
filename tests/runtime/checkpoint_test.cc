#include "runtime/train/checkpoint.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/temporary_folder.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

namespace fs = std::filesystem;

Checkpoint example() {
  Checkpoint c;
  c.text = {{"step", "12"}, {"extra", std::string("a\0b", 3)}, {"empty", ""}};
  c.tensors = {{"parameter/w", Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3})},
               {"buffer/n", Tensor::from<double>({0.5}, {})},
               {"ids", Tensor::of_ints(std::vector<int64_t>{-1, 1LL << 40})},
               {"none", Tensor(DType::kFloat32, {0, 4})},
               {"mask", Tensor::from<bool>({true, false}, {2})}};
  return c;
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string failure(const std::string& path) {
  try {
    read_checkpoint(path);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kFile);
    return e.what();
  }
  return "";
}

TEST_CASE("a checkpoint comes back as it was") {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const Checkpoint back = read_checkpoint(folder / "c");
  const Checkpoint want = example();
  CHECK(back.text == want.text);
  REQUIRE(back.tensors.size() == want.tensors.size());
  for (size_t i = 0; i < want.tensors.size(); ++i) {
    const Tensor &a = back.tensors[i].second, &b = want.tensors[i].second;
    CHECK(back.tensors[i].first == want.tensors[i].first);
    CHECK(a.dtype() == b.dtype());
    CHECK(a.shape() == b.shape());
    CHECK((b.bytes() == 0 || std::memcmp(a.raw(), b.raw(), b.bytes()) == 0));
  }
  CHECK(back.number("step") == 12);
  CHECK_THROWS_AS(back.number("empty"), Error);
  CHECK_THROWS_AS(back.number("absent"), Error);
  CHECK_FALSE(back.find("absent").defined());
}

TEST_CASE("writing replaces the old file and leaves nothing beside it") {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  Checkpoint other;
  other.text["step"] = "13";
  write_checkpoint(folder / "c", other);
  CHECK(read_checkpoint(folder / "c").number("step") == 13);
  CHECK(folder.entries() == 1);
}

TEST_CASE("a checkpoint that cannot be written is an error and leaves nothing") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(write_checkpoint(folder / "no/such/folder", example()), Error);
  fs::create_directory(folder / "taken");
  CHECK_THROWS_AS(write_checkpoint(folder / "taken", example()), Error);
  CHECK(folder.entries() == 1);
}

TEST_CASE("files that are no checkpoints are refused by name") {
  const TemporaryFolder folder;
  CHECK(failure(folder / "absent").find("cannot be read") != std::string::npos);
  write(folder / "empty", "");
  CHECK(failure(folder / "empty").find("no checkpoint") != std::string::npos);
  write(folder / "text", std::string(100, 'x'));
  CHECK(failure(folder / "text").find("no checkpoint") != std::string::npos);
  CHECK_FALSE(is_checkpoint(folder / "text"));
  write_checkpoint(folder / "c", example());
  CHECK(is_checkpoint(folder / "c"));
}

TEST_CASE("another version is refused by its number") {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  std::string bytes = read(folder / "c");
  bytes[8] = 9;
  write(folder / "c", bytes);
  CHECK(failure(folder / "c").find("version 9") != std::string::npos);
}

TEST_CASE("a checkpoint cut off anywhere is refused") {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const std::string bytes = read(folder / "c");
  for (size_t n = 0; n < bytes.size(); n += 7) {
    write(folder / "cut", bytes.substr(0, n));
    CHECK_FALSE(failure(folder / "cut").empty());
  }
}

TEST_CASE("any changed byte is noticed") {
  const TemporaryFolder folder;
  write_checkpoint(folder / "c", example());
  const std::string bytes = read(folder / "c");
  for (size_t i = 0; i < bytes.size(); i += 3) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    write(folder / "bad", bad);
    INFO("byte " << i);
    CHECK_FALSE(failure(folder / "bad").empty());
  }
}

TEST_CASE("contents made up to fit the checksum are still checked") {
  // A valid header around random contents: lengths must not be trusted.
  const TemporaryFolder folder;
  std::mt19937 random(5);
  Checkpoint c;
  for (int round = 0; round < 200; ++round) {
    std::string junk(40 + random() % 200, '\0');
    for (char& ch : junk) ch = static_cast<char>(random() % 4 == 0 ? random() : random() % 3);
    c.text = {{"junk", junk}};
    write_checkpoint(folder / "c", c);
    // The junk lies behind two lengths and the name; moved to the front it is read as structure.
    std::string bytes = read(folder / "c");
    std::string body = bytes.substr(24);
    std::rotate(body.begin(), body.begin() + 16, body.end());
    uint32_t crc = 0xffffffffu;
    for (unsigned char ch : body) {
      crc ^= ch;
      for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1)));
    }
    crc = ~crc;
    std::memcpy(bytes.data() + 12, &crc, 4);
    write(folder / "c", bytes.substr(0, 24) + body);
    try {
      read_checkpoint(folder / "c");
    } catch (const Error& e) {
      CHECK((e.code() == ErrorCode::kFile || e.code() == ErrorCode::kMemory));
    }
  }
}

}  // namespace
}  // namespace trainrt
