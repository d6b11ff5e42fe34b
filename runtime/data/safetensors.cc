#include "runtime/data/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

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

constexpr const char* kMetadata = "__metadata__";

/// The header, and its names in the order of the file, which nlohmann::json forgets. (ordered_json
/// would keep it, but looks names up one after the other: a hostile header would take hours.)
nlohmann::json parse_header(const std::string& text, std::vector<std::string>* names) {
  const auto note = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key) {
      names->push_back(parsed.get<std::string>());
    }
    return true;
  };
  return nlohmann::json::parse(text, note, /*allow_exceptions=*/false);
}

void check_names(const std::string& path,
                 const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::set<std::string_view> seen;
  for (const auto& [name, tensor] : tensors) {
    const auto refuse = [&, &name = name](const char* why) {
      throw Error(ErrorCode::kInput, "'" + path + "': tensor '" + name + "' " + why);
    };
    if (!tensor.defined()) refuse("is undefined");
    if (name == kMetadata) refuse("has a name that the format reserves");
    if (!seen.insert(name).second) refuse("occurs twice");
  }
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> read_safetensors(const std::string& path) {
  const InputFile file(path);
  const auto fail = [&](const std::string& why) {
    throw Error(ErrorCode::kFile, "'" + path + "': " + why);
  };
  uint64_t length = 0;
  file.read(0, std::span<char>(reinterpret_cast<char*>(&length), 8));
  if (length > kMaxHeader || length > file.size() - 8) fail("is not a safetensors file");
  std::vector<std::string> names;
  const nlohmann::json header = parse_header(file.read(8, length), &names);
  if (!header.is_object()) fail("its header is not a JSON object");
  const uint64_t start = 8 + length, space = file.size() - start;
  std::vector<std::pair<std::string, Tensor>> out;
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    const auto broken = [&](const std::string& why) { fail("tensor '" + name + "': " + why); };
    if (!seen.insert(name).second) broken("its name occurs twice");
    if (name == kMetadata) continue;
    const nlohmann::json& entry = header[name];
    if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
        !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
        !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
      broken("dtype, shape and data_offsets expected");
    }
    const TypeRow* type = nullptr;
    for (const TypeRow& row : kTypes) {
      if (entry["dtype"] == row.name) type = &row;
    }
    if (type == nullptr) broken("unknown dtype " + entry["dtype"].dump());
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
    uint64_t count = 0;
    try {
      count = static_cast<uint64_t>(element_count(shape));
    } catch (const Error& error) {
      broken(error.what());
    }
    const size_t width = dtype_size(type->dtype);
    if ((end - begin) % width != 0 || (end - begin) / width != count) {
      broken("its shape " + to_string(shape) + " does not fit its data of " +
             std::to_string(end - begin) + " bytes");
    }
    Tensor tensor(type->dtype, shape);
    file.read(start + begin, std::span<char>(static_cast<char*>(tensor.raw()), tensor.bytes()));
    if (type->dtype == DType::kBool) {
      auto* values = static_cast<uint8_t*>(tensor.raw());
      for (int64_t i = 0; i < tensor.size(); ++i) values[i] = values[i] != 0;
    }
    out.emplace_back(name, std::move(tensor));
  }
  return out;
}

void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, Tensor>>& tensors) {
  check_names(path, tensors);
  std::vector<size_t> by_width(tensors.size()), offsets(tensors.size());
  for (size_t i = 0; i < by_width.size(); ++i) by_width[i] = i;
  std::stable_sort(by_width.begin(), by_width.end(), [&](size_t a, size_t b) {
    return dtype_size(tensors[a].second.dtype()) > dtype_size(tensors[b].second.dtype());
  });
  size_t size = 0;
  for (const size_t i : by_width) {
    offsets[i] = size;
    size += tensors[i].second.bytes();
  }
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    const char* type = "";
    for (const TypeRow& row : kTypes) {
      if (row.dtype == tensor.dtype()) type = row.name;
    }
    // emplace_back of the underlying vector: operator[] would search all names before it.
    header.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(
        name, nlohmann::ordered_json{{"dtype", type},
                                     {"shape", tensor.shape()},
                                     {"data_offsets", {offsets[i], offsets[i] + tensor.bytes()}}});
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    throw Error(ErrorCode::kInput, "'" + path + "': a name is not valid UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  OutputFile file(path);
  file.write({reinterpret_cast<const char*>(&length), 8});
  file.write(text);
  for (const size_t i : by_width) {
    const Tensor& tensor = tensors[i].second;
    file.write({static_cast<const char*>(tensor.raw()), tensor.bytes()});
  }
  file.commit();
}

}  // namespace trainrt
