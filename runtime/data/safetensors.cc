#include "runtime/data/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/data/file.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr uint64_t kMaxHeader = uint64_t{100} << 20;

struct TypeRow {
  const char* name;
  DType dtype;
};
constexpr TypeRow kTypes[] = {
    {"F32", DType::kFloat32},   {"F64", DType::kFloat64}, {"F16", DType::kFloat16},
    {"BF16", DType::kBFloat16}, {"I8", DType::kInt8},     {"I16", DType::kInt16},
    {"I32", DType::kInt32},     {"I64", DType::kInt64},   {"U8", DType::kUInt8},
    {"U16", DType::kUInt16},    {"U32", DType::kUInt32},  {"U64", DType::kUInt64},
    {"BOOL", DType::kBool}};

}  // namespace

std::map<std::string, Tensor> read_safetensors(const std::string& path) {
  const InputFile file(path);
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::kFile, "'" + path + "': " + why);
  };
  uint64_t length = 0;
  file.read(0, std::span<char>(reinterpret_cast<char*>(&length), 8));
  if (length > kMaxHeader || length > file.size() - 8) fail("is not a safetensors file");
  const nlohmann::json header =
      nlohmann::json::parse(file.read(8, length), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) fail("its header is not a JSON object");
  const uint64_t start = 8 + length, space = file.size() - start;
  std::map<std::string, Tensor> out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto broken = [&](const char* why) { fail("tensor '" + name + "': " + why); };
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
        !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
        !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
      broken("dtype, shape and data_offsets expected");
    }
    const TypeRow* type = nullptr;
    for (const TypeRow& row : kTypes) {
      if (entry["dtype"] == row.name) type = &row;
    }
    if (type == nullptr) broken("unknown dtype");
    Shape shape;
    for (const auto& dim : entry["shape"]) {
      if (!dim.is_number_unsigned() || dim.get<uint64_t>() >> 62 != 0) broken("bad shape");
      shape.push_back(dim.get<int64_t>());
    }
    for (const auto& offset : entry["data_offsets"]) {
      if (!offset.is_number_unsigned()) broken("bad data_offsets");
    }
    const auto begin = entry["data_offsets"][0].get<uint64_t>(),
               end = entry["data_offsets"][1].get<uint64_t>();
    if (begin > end || end > space) broken("its data lies outside the file");
    const auto count = static_cast<uint64_t>(element_count(shape));
    const size_t width = dtype_size(type->dtype);
    if ((end - begin) % width != 0 || (end - begin) / width != count) {
      broken("its shape does not fit its data");
    }
    Tensor tensor(type->dtype, shape);
    file.read(start + begin, std::span<char>(static_cast<char*>(tensor.raw()), tensor.bytes()));
    out.emplace(name, std::move(tensor));
  }
  return out;
}

void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const char* type = "";
    for (const TypeRow& row : kTypes) {
      if (row.dtype == tensor.dtype()) type = row.name;
    }
    header[name] = {{"dtype", type},
                    {"shape", tensor.shape()},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  OutputFile file(path);
  file.write({reinterpret_cast<const char*>(&length), 8});
  file.write(text);
  for (const auto& [name, tensor] : tensors) {
    file.write({static_cast<const char*>(tensor.raw()), tensor.bytes()});
  }
  file.commit();
}

}  // namespace trainrt
