#include <zlib.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>

#include "runtime/data/csv.h"
#include "runtime/data/dataset.h"
#include "runtime/data/file.h"
#include "runtime/data/idx.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"
#include "tests/support/temporary_folder.h"
#include "trainrt/error.h"

#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace trainrt {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

#define CHECK_ERROR(expression, text) \
  CHECK_THROWS_MATCHES(expression, Error, MessageMatches(ContainsSubstring(text)))

std::string idx(int type, std::initializer_list<int> dims, std::string_view data) {
  std::string out = {'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const int dim : dims) out += {0, 0, static_cast<char>(dim >> 8), static_cast<char>(dim)};
  return out + std::string(data);
}

std::string gzip(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(content.size() + 200, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST_CASE("IDX images become floats with a channel axis", "[data]") {
  const TemporaryFolder folder;
  const std::string images =
      folder.write("images-idx3-ubyte", idx(8, {2, 1, 2}, std::string_view("\0\xff\x33\x66", 4)));
  const std::string labels =
      folder.write("labels-idx1-ubyte", idx(8, {2}, std::string_view("\7\0", 2)));
  const auto data = open_dataset(images + "," + labels, {});
  CHECK(data->size() == 2);
  const TensorMap all = data->whole();
  CHECK(all.at("data").shape() == Shape{2, 1, 1, 2});
  CHECK(all.at("data").data<float>()[1] == 1.0f);
  CHECK(all.at("data").data<float>()[2] == Approx(0.2f));
  CHECK(all.at("target").to_ints() == std::vector<int64_t>{7, 0});
}

TEST_CASE("IDX files may be packed", "[data]") {
  const TemporaryFolder folder;
  const std::string images = folder.write("images-idx3-ubyte.gz",
                                          gzip(idx(8, {1, 2, 2}, std::string_view("\1\2\3\4", 4))));
  DataOptions options;
  options.image.channels_last = true;
  options.image.mean = {0.5f};
  options.image.std = {2.0f};
  const TensorMap all = open_dataset(images, options)->whole();
  CHECK(all.at("data").shape() == Shape{1, 2, 2, 1});
  CHECK(all.at("data").data<float>()[3] == Approx((4 / 255.0f - 0.5f) / 2));
}

TEST_CASE("IDX reads wide values big-endian", "[data]") {
  const Tensor t = parse_idx(idx(0x0B, {2}, std::string_view("\1\2\xff\xfe", 4)), "x");
  CHECK(t.data<int16_t>()[0] == 258);
  CHECK(t.data<int16_t>()[1] == -2);
}

TEST_CASE("IDX refuses what does not fit", "[data]") {
  CHECK_ERROR(parse_idx("", "x"), "not an IDX file");
  CHECK_ERROR(parse_idx(idx(3, {1}, "a"), "x"), "not an IDX file");
  CHECK_ERROR(parse_idx(idx(8, {3}, "ab"), "x"), "does not fit");
  CHECK_ERROR(parse_idx(idx(8, {1}, "ab"), "x"), "does not fit");
  CHECK_ERROR(parse_idx(std::string("\0\0\10\3\0\0", 6), "x"), "cut off");
  std::string huge("\0\0\10\4", 4);
  huge += std::string(16, '\xff');
  CHECK_THROWS_AS(parse_idx(huge, "x"), Error);
}

TEST_CASE("damaged gzip streams are noticed", "[data]") {
  const TemporaryFolder folder;
  std::string packed = gzip(std::string(5000, 'q'));
  packed.resize(packed.size() / 2);
  CHECK_ERROR(read_file(folder.write("x.gz", packed)), "damaged");
  CHECK_ERROR(gunzip(gzip(std::string(5000, 'q')), "x", 4000), "more than 4000");
}

TEST_CASE("csv with a header and integer targets", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.csv", "a,b,class\n1,2.5,0\r\n-3,4e-1,2\n\n");
  const TensorMap all = open_dataset(path, {})->whole();
  CHECK(all.at("data").shape() == Shape{2, 2});
  CHECK(all.at("data").data<float>()[3] == 0.4f);
  CHECK(all.at("target").dtype() == DType::kInt64);
  CHECK(all.at("target").to_ints() == std::vector<int64_t>{0, 2});
}

TEST_CASE("csv picks the target by name, by index, or none", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.csv", "y,a\n0.5,1\n1.5,2\n");
  DataOptions options;
  options.target_column = "y";
  const TensorMap named = open_dataset(path, options)->whole();
  CHECK(named.at("target").dtype() == DType::kFloat32);
  CHECK(named.at("data").data<float>()[1] == 2.0f);
  options.target_column = "0";
  CHECK(open_dataset(path, options)->whole().at("target").data<float>()[1] == 1.5f);
  options.target_column = "-1";
  CHECK(open_dataset(path, options)->whole().at("target").to_ints()[1] == 2);
  options.target_column = "none";
  CHECK(open_dataset(path, options)->whole().at("data").shape() == Shape{2, 2});
  options.target_column = "z";
  CHECK_ERROR(open_dataset(path, options), "y, a");
  options.target_column = "2";
  CHECK_ERROR(open_dataset(path, options), "2 columns");
}

TEST_CASE("csv text targets become sorted class ids", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.csv", "1,dog\n2,\"cat, big\"\n3,dog\n");
  const auto data = open_dataset(path, {});
  CHECK(data->classes() == std::vector<std::string>{"cat, big", "dog"});
  CHECK(data->whole().at("target").to_ints() == std::vector<int64_t>{1, 0, 1});
  DataOptions options;
  options.classes = {"bird", "dog"};
  CHECK_ERROR(open_dataset(path, options), "'cat, big' does not occur");
}

TEST_CASE("csv without a header keeps its first row", "[data]") {
  const CsvTable table = parse_csv("1,2\n3,4\n", "x");
  CHECK(table.header.empty());
  CHECK(table.rows.size() == 2);
}

TEST_CASE("csv takes quotes, separators and byte order marks", "[data]") {
  const CsvTable table = parse_csv("\xef\xbb\xbf\"a \"\"b\"\"\";c\n1;\"2\"\n", "x");
  CHECK(table.header == std::vector<std::string>{"a \"b\"", "c"});
  CHECK(table.rows[0] == std::vector<std::string>{"1", "2"});
  CHECK(parse_csv("1\t2\n", "x").rows[0].size() == 2);
}

TEST_CASE("csv errors name line and column", "[data]") {
  const TemporaryFolder folder;
  CHECK_ERROR(open_dataset(folder.write("a.csv", "a,b,y\n1,2,0\n3,oops,1\n"), {}),
              "line 3, column 'b': 'oops' is not a number");
  CHECK_ERROR(open_dataset(folder.write("b.csv", "1,,0\n"), {}), "line 1, column 1: ''");
  CHECK_ERROR(parse_csv("1,2\n3\n", "x"), "line 2: 2 fields expected, found 1");
  CHECK_ERROR(parse_csv("1,2\n\"3,4\n", "x"), "line 2: unclosed quote");
  CHECK_ERROR(open_dataset(folder.write("c.csv", "a,b\n"), {}), "no rows");
  CHECK_ERROR(open_dataset(folder.write("d.csv", ""), {}), "no rows");
}

TEST_CASE("safetensors round trip", "[data]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.safetensors");
  write_safetensors(path, {{"x", Tensor::from<float>({1, 2, 3, 4}, {2, 2})},
                           {"empty", Tensor(DType::kInt64, {0, 3})},
                           {"half", Tensor::from<float>({0.5f}, {1}).to(DType::kFloat16)},
                           {"target", Tensor::from<int64_t>({5, 6}, {2})}});
  const auto tensors = read_safetensors(path);
  const TensorMap back(tensors.begin(), tensors.end());
  CHECK(back.size() == 4);
  CHECK(back.at("x").data<float>()[3] == 4.0f);
  CHECK(back.at("empty").shape() == Shape{0, 3});
  CHECK(back.at("half").to(DType::kFloat32).item() == 0.5);
  CHECK(open_dataset(path, {})->fields().size() == 4);
}

TEST_CASE("safetensors refuses hostile headers", "[data]") {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& header, size_t data = 8) {
    const uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    return folder.write("a.safetensors", bytes + header + std::string(data, 'd'));
  };
  for (const char* header :
       {"", "[]", "{\"a\":1}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,800]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"X\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387903,4611686018427387903],"
        "\"data_offsets\":[0,8]}}"}) {
    CHECK_THROWS_AS(read_safetensors(file(header)), Error);
  }
  CHECK_THROWS_AS(read_safetensors(file(std::string(200000, '['))), Error);
  CHECK_THROWS_AS(read_safetensors(folder.write("b.safetensors", "\xff\xff\xff\xff\xff\xff\xff")),
                  Error);
  CHECK_THROWS_AS(read_safetensors(folder.write("b.safetensors", std::string(20, '\xff'))), Error);
}

/// Two classes of 2x2 images: all black, and red with one white corner.
std::string make_images(const TemporaryFolder& folder) {
  std::filesystem::create_directories(folder.file("images/black"));
  std::filesystem::create_directories(folder.file("images/red"));
  std::vector<unsigned char> black(12, 0), red = {255, 255, 255, 255, 0, 0, 255, 0, 0, 255, 0, 0};
  stbi_write_png(folder.file("images/black/a.png").c_str(), 2, 2, 3, black.data(), 6);
  stbi_write_bmp(folder.file("images/black/b.bmp").c_str(), 2, 2, 3, black.data());
  stbi_write_png(folder.file("images/red/c.PNG").c_str(), 2, 2, 3, red.data(), 6);
  folder.write("images/red/notes.txt", "no image");
  return folder.file("images");
}

TEST_CASE("folders of images give classes and pixels", "[data]") {
  const TemporaryFolder folder;
  DataOptions options;
  options.image = {.channels = 3, .height = 2, .width = 2};
  const auto data = open_dataset(make_images(folder), options);
  CHECK(data->size() == 3);
  CHECK(data->classes() == std::vector<std::string>{"black", "red"});
  const TensorMap all = data->whole();
  CHECK(all.at("target").to_ints() == std::vector<int64_t>{0, 0, 1});
  CHECK(all.at("data").shape() == Shape{3, 3, 2, 2});
  const auto red = all.at("data").rows(2, 3).data<float>();
  CHECK(std::vector<float>(red.begin(), red.end()) ==
        std::vector<float>{1, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("images follow channels, layout, size, mean and std", "[data]") {
  const TemporaryFolder folder;
  const std::string path = make_images(folder) + "/red/c.PNG";
  const Tensor last =
      read_image(path, {.channels = 3, .height = 2, .width = 2, .channels_last = true});
  CHECK(last.shape() == Shape{2, 2, 3});
  CHECK(last.data<float>()[3] == 1.0f);
  CHECK(last.data<float>()[4] == 0.0f);
  const Tensor grey =
      read_image(path, {.channels = 1, .height = 2, .width = 2, .mean = {1.0f}, .std = {0.5f}});
  CHECK(grey.data<float>()[0] == 0.0f);
  CHECK(grey.data<float>()[1] < -1.0f);
  CHECK(read_image(path, {.channels = 3, .height = 5, .width = 7}).shape() == Shape{3, 5, 7});
}

TEST_CASE("augmentation draws from seed, epoch and sample", "[data]") {
  const TemporaryFolder folder;
  DataOptions options;
  options.image = {.channels = 3, .height = 2, .width = 2, .flip = true};
  const auto data = open_dataset(make_images(folder), options);
  const std::vector<int64_t> red = {2};
  int flipped = 0;
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    const Tensor a = data->batch(red, {1, epoch, true}).at("data");
    const Tensor b = data->batch(red, {1, epoch, true}).at("data");
    CHECK(std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
    flipped += a.data<float>()[4] == 0.0f;
  }
  CHECK(flipped > 60);
  CHECK(flipped < 140);
  CHECK(data->batch(red, {1, 0, false}).at("data").data<float>()[4] == 1.0f);
}

TEST_CASE("broken images and folders are named", "[data]") {
  const TemporaryFolder folder;
  DataOptions options;
  options.image = {.channels = 3, .height = 2, .width = 2};
  folder.write("set/a/x.png", "\x89PNG\r\n\x1a\n and then nothing");
  CHECK_ERROR(open_dataset(folder.file("set"), options)->whole(), "x.png");
  std::filesystem::create_directories(folder.file("none"));
  CHECK_ERROR(open_dataset(folder.file("none"), options), "no class folders");
  options.image.height = 0;
  CHECK_ERROR(open_dataset(folder.file("set"), options), "--image-size");
  options.image = {.channels = 4, .height = 2, .width = 2};
  CHECK_ERROR(open_dataset(folder.file("set"), options), "wants 4");
}

TEST_CASE("options that do not go with the data are refused", "[data]") {
  DataOptions mean;
  mean.image.mean = {0.5f};
  CHECK_ERROR(open_dataset("a.csv", mean), "--mean");
  DataOptions flip;
  flip.image.flip = true;
  CHECK_ERROR(open_dataset("a.npz", flip), "--augment");
  DataOptions column;
  column.target_column = "y";
  CHECK_ERROR(open_dataset("a.npz", column), "--target-column");
  CHECK_ERROR(open_dataset("a.txt", {}), "cannot tell");
}

TEST_CASE("npy holds features only", "[data]") {
  const TemporaryFolder folder;
  const Tensor t = Tensor::from<float>({1, 2}, {2, 1});
  const std::string path =
      folder.write("a.npy", npy_header(t.dtype(), t.shape()) +
                                std::string(static_cast<const char*>(t.raw()), t.bytes()));
  CHECK(open_dataset(path, {})->whole().at("data").shape() == Shape{2, 1});
}

}  // namespace
}  // namespace trainrt
