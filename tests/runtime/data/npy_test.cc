#include "runtime/data/npy.h"

#include <zlib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <random>

#include "runtime/data/file.h"
#include "runtime/data/zip.h"
#include "tests/support/temporary_folder.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

std::string npy(const std::string& dict, std::string_view data, int version = 1) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  const auto length = static_cast<uint32_t>(dict.size());
  out.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return out + dict + std::string(data);
}

template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

/// A zip archive with one deflated member whose local header leaves sizes to a data descriptor.
std::string deflated_zip(const std::string& name, const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  std::string packed(content.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
  const auto u16 = [](uint16_t v) { return std::string(reinterpret_cast<char*>(&v), 2); };
  const auto u32 = [](uint32_t v) { return std::string(reinterpret_cast<char*>(&v), 4); };
  const auto packed_size = static_cast<uint32_t>(packed.size()),
             size = static_cast<uint32_t>(content.size());
  const auto name_size = static_cast<uint16_t>(name.size());
  std::string out = "PK\3\4" + u16(20) + u16(8) + u16(8) + u32(0) + u32(0) + u32(0) + u32(0) +
                    u16(name_size) + u16(0) + name + packed;
  out += "PK\7\10" + u32(crc) + u32(packed_size) + u32(size);
  const auto start = static_cast<uint32_t>(out.size());
  out += "PK\1\2" + u16(20) + u16(20) + u16(8) + u16(8) + u32(0) + u32(crc) + u32(packed_size) +
         u32(size) + u16(name_size) + u16(0) + u16(0) + u16(0) + u16(0) + u32(0) + u32(0) + name;
  const auto length = static_cast<uint32_t>(out.size()) - start;
  return out + "PK\5\6" + u32(0) + u16(1) + u16(1) + u32(length) + u32(start) + u16(0);
}

TEST_CASE("npz keeps every type, shape and value", "[data]") {
  const TemporaryFolder folder;
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt8,
                               DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt8,
                               DType::kUInt16, DType::kUInt32, DType::kUInt64, DType::kBool);
  const Shape shape = GENERATE(Shape{}, Shape{0}, Shape{5}, Shape{2, 3}, Shape{2, 0, 3});
  Tensor t(dtype, shape);
  auto* bytes = static_cast<uint8_t*>(t.raw());
  for (size_t i = 0; i < t.bytes(); ++i) {
    bytes[i] = static_cast<uint8_t>(dtype == DType::kBool ? i % 2 : i * 37 + 1);
  }
  write_npz(folder.file("a.npz"), {{"some/name", t}});
  const auto back = read_npz(folder.file("a.npz"));
  REQUIRE(back.size() == 1);
  const Tensor& read = back.at("some/name");
  CHECK(read.dtype() == dtype);
  CHECK(read.shape() == shape);
  REQUIRE(read.bytes() == t.bytes());
  CHECK((t.bytes() == 0 || std::memcmp(read.raw(), t.raw(), t.bytes()) == 0));
}

TEST_CASE("npz writes bfloat16 as float32", "[data]") {
  const TemporaryFolder folder;
  const Tensor t = Tensor::from<float>({1.5f, -2.0f}, {2}).to(DType::kBFloat16);
  write_npz(folder.file("a.npz"), {{"x", t}});
  const Tensor back = read_npz(folder.file("a.npz")).at("x");
  REQUIRE(back.dtype() == DType::kFloat32);
  CHECK(back.data<float>()[1] == -2.0f);
}

TEST_CASE("npy header is padded to 64 bytes", "[data]") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1234567, 89, 1011, 1213}}) {
    CHECK(npy_header(DType::kFloat32, shape).size() % 64 == 0);
  }
}

TEST_CASE("npy reads big-endian values", "[data]") {
  const Tensor t = parse_npy(npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }",
                                 std::string_view("\0\0\1\2\xff\xff\xff\xfe", 8)),
                             "x");
  CHECK(t.data<int32_t>()[0] == 258);
  CHECK(t.data<int32_t>()[1] == -2);
}

TEST_CASE("npy reads Fortran order", "[data]") {
  const Tensor t = parse_npy(npy("{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3, 2), }",
                                 bytes_of<double>({0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11})),
                             "x");
  for (size_t i = 0; i < 12; ++i) CHECK(t.data<double>()[i] == static_cast<double>(i));
}

TEST_CASE("npy reads versions 2 and 3 and any key order", "[data]") {
  const int version = GENERATE(2, 3);
  const Tensor t = parse_npy(
      npy("{\"shape\":(3,),\"descr\":\"|u1\",\"fortran_order\":False}\n", "\1\2\3", version), "x");
  CHECK(t.data<uint8_t>()[2] == 3);
}

TEST_CASE("npy says what it cannot hold", "[data]") {
  const auto message = [](const std::string& descr) {
    return npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }", "12345678");
  };
  CHECK_THROWS_MATCHES(parse_npy(message("'<U2'"), "x"), Error,
                       MessageMatches(ContainsSubstring("text")));
  CHECK_THROWS_MATCHES(parse_npy(message("'<c8'"), "x"), Error,
                       MessageMatches(ContainsSubstring("complex")));
  CHECK_THROWS_MATCHES(parse_npy(message("'|O'"), "x"), Error,
                       MessageMatches(ContainsSubstring("Python objects")));
  CHECK_THROWS_MATCHES(parse_npy(message("[('a', '<f4')]"), "x"), Error,
                       MessageMatches(ContainsSubstring("records")));
}

TEST_CASE("npy refuses shapes larger than the file", "[data]") {
  for (const char* shape : {"(4,)", "(1000000000000,)", "(4611686018427387904, 4)",
                            "(99999999999999999999,)", "(-1,)"}) {
    CHECK_THROWS_AS(
        parse_npy(
            npy(std::string("{'descr': '<f4', 'fortran_order': False, 'shape': ") + shape + ", }",
                "12345678"),
            "x"),
        Error);
  }
}

TEST_CASE("npy refuses broken headers", "[data]") {
  for (const char* dict :
       {"", "{", "{}", "{'descr'", "{'descr': '<f4'}", "{'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '<f4', 'shape': (1, 'x')}", "{'other': 1}", "{'descr': '<f4, 'shape': (1,)}"}) {
    CHECK_THROWS_AS(parse_npy(npy(dict, "1234"), "x"), Error);
  }
  CHECK_THROWS_AS(parse_npy("", "x"), Error);
  CHECK_THROWS_AS(parse_npy("\x93NUMPY\1", "x"), Error);
  CHECK_THROWS_AS(parse_npy(npy("{'descr': '<f4'", "").substr(0, 12), "x"), Error);
}

TEST_CASE("npz reads deflated members with data descriptors", "[data]") {
  const TemporaryFolder folder;
  const std::string array =
      npy("{'descr': '<i8', 'fortran_order': False, 'shape': (300,), }", std::string(2400, '\1'));
  const auto back = read_npz(folder.write("a.npz", deflated_zip("x.npy", array)));
  CHECK(back.at("x").data<int64_t>()[299] == 0x0101010101010101);
}

TEST_CASE("npz notices a damaged member", "[data]") {
  const TemporaryFolder folder;
  write_npz(folder.file("a.npz"), {{"x", Tensor::from<float>({1, 2, 3}, {3})}});
  std::string bytes = TemporaryFolder::read(folder.file("a.npz"));
  bytes[33 + 128] ^= 1;  // inside the data of the only member
  CHECK_THROWS_MATCHES(read_npz(folder.write("b.npz", bytes)), Error,
                       MessageMatches(ContainsSubstring("checksum")));
}

TEST_CASE("npz survives arbitrary damage", "[data]") {
  const TemporaryFolder folder;
  write_npz(folder.file("a.npz"), {{"x", Tensor::from<float>({1, 2, 3}, {3})},
                                   {"target", Tensor::from<int64_t>({1, 2, 3}, {3})}});
  const std::string good = TemporaryFolder::read(folder.file("a.npz"));
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    std::string bad = good;
    for (int k = 0; k < 4; ++k) bad[random() % bad.size()] = static_cast<char>(random());
    if (i % 3 == 0) bad.resize(random() % bad.size());
    const std::string path = folder.write("b.npz", bad);
    try {
      read_npz(path);
    } catch (const Error& error) {
      CHECK(error.code() != ErrorCode::kInternal);
    }
  }
}

TEST_CASE("zip refuses members that claim absurd sizes", "[data]") {
  const TemporaryFolder folder;
  std::string bytes = deflated_zip("x.npy", std::string(1000, 'a'));
  const size_t directory = bytes.find("PK\1\2");
  const uint32_t huge = 0xfffffff0;
  std::memcpy(bytes.data() + directory + 24, &huge, 4);
  CHECK_THROWS_MATCHES(read_npz(folder.write("a.npz", bytes)), Error,
                       MessageMatches(ContainsSubstring("claims more bytes")));
}

TEST_CASE("zip64 fields are read", "[data]") {
  const TemporaryFolder folder;
  // NumPy writes a ZIP64 extra field into local headers always; here the directory has one as well.
  std::string bytes = deflated_zip("x.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': "
                                                "(4,), }",
                                                "abcd"));
  const size_t directory = bytes.find("PK\1\2"), end = bytes.find("PK\5\6");
  uint32_t packed = 0, size = 0;
  std::memcpy(&packed, bytes.data() + directory + 20, 4);
  std::memcpy(&size, bytes.data() + directory + 24, 4);
  const uint64_t wide[] = {size, packed};
  std::string extra("\1\0\x10\0", 4);
  extra.append(reinterpret_cast<const char*>(wide), 16);
  std::memset(bytes.data() + directory + 20, 0xff, 8);
  bytes[directory + 30] = static_cast<char>(extra.size());
  bytes.insert(end, extra);
  const auto length = static_cast<uint32_t>(end - directory + extra.size());
  std::memcpy(bytes.data() + bytes.find("PK\5\6") + 12, &length, 4);
  CHECK(read_npz(folder.write("a.npz", bytes)).at("x").data<uint8_t>()[3] == 'd');
}

TEST_CASE("a file that is no zip is named", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.npz", "this is no archive, however long it may be");
  CHECK_THROWS_MATCHES(read_npz(path), Error, MessageMatches(ContainsSubstring(path)));
  CHECK_THROWS_AS(read_npz(folder.file("absent.npz")), Error);
  CHECK_THROWS_AS(read_npz(folder.file("")), Error);
}

TEST_CASE("an uncommitted file leaves nothing", "[data]") {
  const TemporaryFolder folder;
  {
    OutputFile file(folder.file("x"));
    file.write("abc");
  }
  CHECK(folder.entries() == 0);
  check_writable(folder.file("x"));
  CHECK(folder.entries() == 0);
  CHECK_THROWS_AS(check_writable(folder.file("no/such/folder/x")), Error);
  CHECK_THROWS_AS(check_writable(folder.file("")), Error);
}

}  // namespace
}  // namespace trainrt
