#include "frontend/decode.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>

#include "frontend/onnx_dtype.h"

namespace trainrt {
namespace {

// A subgraph takes three levels of messages; 64 nested ones fit, with types below them.
constexpr int kMessageDepth = 220;

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, message);
}

bool parse(google::protobuf::io::ZeroCopyInputStream* in, onnx::ModelProto* model) {
  google::protobuf::io::CodedInputStream coded(in);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  coded.SetRecursionLimit(kMessageDepth);
  return model->ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage() && model->has_graph();
}

void visit_tensor_attributes(onnx::NodeProto& node, const std::function<void(const Slot&)>& visit);

void visit_graph(onnx::GraphProto& graph, const std::function<void(const Slot&)>& visit) {
  for (onnx::TensorProto& t : *graph.mutable_initializer()) visit({&t, nullptr});
  for (onnx::NodeProto& node : *graph.mutable_node()) visit_tensor_attributes(node, visit);
}

void visit_attribute(onnx::AttributeProto& attribute, bool constant_node,
                     const std::function<void(const Slot&)>& visit) {
  if (attribute.has_t()) visit({attribute.mutable_t(), nullptr});
  for (onnx::TensorProto& t : *attribute.mutable_tensors()) visit({&t, nullptr});
  if (constant_node && attribute.name() == "value_floats") visit({nullptr, &attribute});
  if (attribute.has_g()) visit_graph(*attribute.mutable_g(), visit);
  for (onnx::GraphProto& g : *attribute.mutable_graphs()) visit_graph(g, visit);
}

void visit_tensor_attributes(onnx::NodeProto& node, const std::function<void(const Slot&)>& visit) {
  for (onnx::AttributeProto& a : *node.mutable_attribute()) {
    visit_attribute(a, node.op_type() == "Constant", visit);
  }
}

void visit_nodes(onnx::NodeProto* node, bool in_function,
                 const std::function<void(onnx::NodeProto*, bool in_function)>& visit) {
  visit(node, in_function);
  for (onnx::AttributeProto& a : *node->mutable_attribute()) {
    if (a.has_g()) {
      for (onnx::NodeProto& n : *a.mutable_g()->mutable_node()) {
        visit_nodes(&n, in_function, visit);
      }
    }
    for (onnx::GraphProto& g : *a.mutable_graphs()) {
      for (onnx::NodeProto& n : *g.mutable_node()) visit_nodes(&n, in_function, visit);
    }
  }
}

/// An 8-bit or smaller float: sign, exponent, mantissa.
float small_float(uint32_t bits, int exponent_bits, int mantissa_bits, int bias) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const bool negative = ((bits >> (mantissa_bits + exponent_bits)) & 1u) != 0;
  const float fraction = std::ldexp(static_cast<float>(mantissa), -mantissa_bits);
  const float value =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0f + fraction, exponent - bias);
  return negative ? -value : value;
}

float widen(int64_t type, uint8_t v) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  switch (type) {
    case kOnnxFloat8E4M3FN:
      return (v & 0x7F) == 0x7F ? nan : small_float(v, 4, 3, 7);
    case kOnnxFloat8E4M3FNUZ:
      return v == 0x80 ? nan : small_float(v, 4, 3, 8);
    case kOnnxFloat8E5M2:
      if ((v & 0x7F) == 0x7C) return (v & 0x80) != 0 ? -INFINITY : INFINITY;
      return (v & 0x7F) > 0x7C ? nan : small_float(v, 5, 2, 15);
    case kOnnxFloat8E5M2FNUZ:
      return v == 0x80 ? nan : small_float(v, 5, 2, 16);
    case kOnnxFloat8E8M0:
      return v == 0xFF ? nan : std::ldexp(1.0f, static_cast<int>(v) - 127);
    default:
      return small_float(v, 2, 1, 1);
  }
}

/// Bits per element of the types that are widened on reading; 0 for all others.
int narrow_bits(int64_t type) {
  switch (type) {
    case kOnnxUint2:
    case kOnnxInt2:
      return 2;
    case kOnnxUint4:
    case kOnnxInt4:
    case kOnnxFloat4E2M1:
      return 4;
    case kOnnxFloat8E4M3FN:
    case kOnnxFloat8E4M3FNUZ:
    case kOnnxFloat8E5M2:
    case kOnnxFloat8E5M2FNUZ:
    case kOnnxFloat8E8M0:
      return 8;
    default:
      return 0;
  }
}

Tensor unpack(int64_t type, int bits, std::span<const uint8_t> bytes, const Shape& shape) {
  const bool floating = !is_narrow_integer(type), is_signed = widened(type) == DType::kInt8;
  const int per_byte = 8 / bits;
  Tensor out(widened(type), shape);
  for (int64_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const uint8_t byte = bytes[at / static_cast<size_t>(per_byte)];
    const int shift = static_cast<int>(i % per_byte) * bits;
    auto v = static_cast<uint8_t>((byte >> shift) & ((1u << bits) - 1));
    if (floating) {
      out.data<float>()[at] = widen(type, v);
    } else if (is_signed) {
      const int top = 1 << (bits - 1);
      out.data<int8_t>()[at] = static_cast<int8_t>((v ^ top) - top);
    } else {
      out.data<uint8_t>()[at] = v;
    }
  }
  return out;
}

void check_count(const char* field, int64_t given, int64_t wanted, const Shape& shape) {
  if (given != wanted) {
    invalid("shape " + to_string(shape) + " needs " + std::to_string(wanted) + " values in " +
            field + ", found " + std::to_string(given));
  }
}

template <typename Field, typename T>
Tensor from_field(const char* name, const Field& field, DType dtype, const Shape& shape,
                  int64_t count, T) {
  check_count(name, field.size(), count, shape);
  Tensor out(dtype, shape);
  T* to = static_cast<T*>(out.raw());
  for (int i = 0; i < field.size(); ++i) to[i] = static_cast<T>(field.Get(i));
  return out;
}

Tensor from_typed_fields(const onnx::TensorProto& t, DType dtype, const Shape& shape,
                         int64_t count) {
  switch (dtype) {
    case DType::kFloat32:
      return from_field("float_data", t.float_data(), dtype, shape, count, float{});
    case DType::kFloat64:
      return from_field("double_data", t.double_data(), dtype, shape, count, double{});
    case DType::kInt64:
      return from_field("int64_data", t.int64_data(), dtype, shape, count, int64_t{});
    case DType::kUInt64:
      return from_field("uint64_data", t.uint64_data(), dtype, shape, count, uint64_t{});
    case DType::kUInt32:
      return from_field("uint64_data", t.uint64_data(), dtype, shape, count, uint32_t{});
    case DType::kInt32:
      return from_field("int32_data", t.int32_data(), dtype, shape, count, int32_t{});
    case DType::kInt16:
      return from_field("int32_data", t.int32_data(), dtype, shape, count, int16_t{});
    case DType::kUInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return from_field("int32_data", t.int32_data(), dtype, shape, count, uint16_t{});
    case DType::kInt8:
      return from_field("int32_data", t.int32_data(), dtype, shape, count, int8_t{});
    case DType::kUInt8:
    case DType::kBool:
      return from_field("int32_data", t.int32_data(), dtype, shape, count, uint8_t{});
  }
  invalid("unknown element type");
}

template <typename T>
void drop(google::protobuf::RepeatedField<T>* field) {
  google::protobuf::RepeatedField<T>().Swap(field);
}

void drop_contents(onnx::TensorProto& t) {
  if (t.has_raw_data()) std::unique_ptr<std::string>(t.release_raw_data());
  drop(t.mutable_float_data());
  drop(t.mutable_int32_data());
  drop(t.mutable_int64_data());
  drop(t.mutable_double_data());
  drop(t.mutable_uint64_data());
}

bool parse_number(const std::string& text, uint64_t* out) {
  if (text.empty() || text.size() > 18) return false;
  *out = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    *out = *out * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  auto p = path.begin();
  for (const auto& part : folder) {
    if (part.empty()) continue;  // a trailing slash
    if (p == path.end() || *p != part) return false;
    ++p;
  }
  return p != path.end();
}

}  // namespace

void parse_model_file(const std::string& path, onnx::ModelProto* model) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    throw Error(ErrorCode::kFile, path + ": cannot be opened: " + std::strerror(errno));
  }
  struct stat info = {};
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular) {
    close(fd);
    throw Error(ErrorCode::kFile, path + ": not a regular file");
  }
  if (info.st_size > std::numeric_limits<int>::max()) {
    close(fd);
    throw Error(ErrorCode::kFile,
                path + ": " + std::to_string(info.st_size) +
                    " bytes; protobuf allows 2 GiB: save the model with external data");
  }
  bool ok;
  {
    google::protobuf::io::FileInputStream in(fd, 1 << 20);
    in.SetCloseOnDelete(true);
    ok = parse(&in, model);
  }
  if (!ok) {
    throw Error(ErrorCode::kFile, path + ": not an ONNX model, or damaged (" +
                                      std::to_string(info.st_size) +
                                      " bytes): export or copy the file again");
  }
}

void parse_model_bytes(std::span<const char> bytes, onnx::ModelProto* model) {
  const bool fits = bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max());
  google::protobuf::io::ArrayInputStream in(bytes.data(),
                                            fits ? static_cast<int>(bytes.size()) : 0);
  if (!fits || !parse(&in, model)) {
    throw Error(ErrorCode::kFile,
                "not an ONNX model, or damaged (" + std::to_string(bytes.size()) + " bytes)");
  }
}

void for_each_slot(onnx::ModelProto& model, const std::function<void(const Slot&)>& visit) {
  visit_graph(*model.mutable_graph(), visit);
  for (onnx::FunctionProto& f : *model.mutable_functions()) {
    for (onnx::AttributeProto& a : *f.mutable_attribute_proto()) visit_attribute(a, false, visit);
    for (onnx::NodeProto& node : *f.mutable_node()) visit_tensor_attributes(node, visit);
  }
}

void for_each_node(onnx::ModelProto& model,
                   const std::function<void(onnx::NodeProto*, bool in_function)>& visit) {
  for (onnx::NodeProto& n : *model.mutable_graph()->mutable_node()) {
    visit_nodes(&n, false, visit);
  }
  for (onnx::FunctionProto& f : *model.mutable_functions()) {
    for (onnx::NodeProto& n : *f.mutable_node()) visit_nodes(&n, true, visit);
  }
}

Stored TensorReader::take(onnx::TensorProto& t) {
  Stored result;
  const int64_t type = t.data_type();
  const Shape shape(t.dims().begin(), t.dims().end());
  if (shape.size() > 64) invalid("rank " + std::to_string(shape.size()) + " is above 64");
  for (int64_t dim : shape) {
    if (dim < 0) invalid("negative dim in shape " + to_string(shape));
  }
  int64_t count;
  try {
    count = element_count(shape);
  } catch (const Error&) {
    invalid("shape " + to_string(shape) + " is too large");
  }
  if (t.has_segment()) invalid("tensors in segments are not supported");

  const int bits = narrow_bits(type);
  DType dtype = DType::kUInt8;
  if (bits == 0 && !dtype_from_onnx(type, &dtype)) {
    if (type <= 0 || type > kOnnxInt2) invalid("unknown element type " + std::to_string(type));
    result.unsupported = onnx_type_name(type) + " tensor";
    return result;
  }

  const int64_t limit = std::numeric_limits<int64_t>::max() / 16;
  if (count > limit) invalid("shape " + to_string(shape) + " is too large");
  const uint64_t bytes = bits != 0
                             ? (static_cast<uint64_t>(count) * static_cast<uint64_t>(bits) + 7) / 8
                             : static_cast<uint64_t>(count) * dtype_size(dtype);
  result.external = t.data_location() == onnx::TensorProto::EXTERNAL;
  std::vector<uint8_t> packed;
  if (result.external) {
    if (bits != 0) {
      if (bytes > (uint64_t{1} << 34)) invalid("shape " + to_string(shape) + " is too large");
      packed.resize(bytes);
      read_external(t, reinterpret_cast<char*>(packed.data()), bytes);
    } else {
      // The size is checked against the file before anything is allocated.
      read_external(t, nullptr, bytes);
      result.value = Tensor(dtype, shape);
      read_external(t, static_cast<char*>(result.value.raw()), bytes);
    }
  } else if (t.has_raw_data()) {
    if (t.raw_data().size() != bytes) {
      invalid("shape " + to_string(shape) + " of " + onnx_type_name(type) + " needs " +
              std::to_string(bytes) + " bytes, found " + std::to_string(t.raw_data().size()));
    }
    if (bits != 0) {
      packed.assign(t.raw_data().begin(), t.raw_data().end());
    } else {
      result.value = Tensor(dtype, shape);
      if (bytes > 0) std::memcpy(result.value.raw(), t.raw_data().data(), bytes);
    }
  } else if (bits != 0) {
    check_count("int32_data", t.int32_data_size(), static_cast<int64_t>(bytes), shape);
    for (int32_t v : t.int32_data()) packed.push_back(static_cast<uint8_t>(v));
  } else {
    result.value = from_typed_fields(t, dtype, shape, count);
  }

  if (bits != 0) {
    result.narrow = type;
    result.value = unpack(type, bits, packed, shape);
    if (result.external) {
      result.packed = Tensor::from<uint8_t>(packed, {static_cast<int64_t>(packed.size())});
    }
    return result;
  }
  if (dtype == DType::kBool) {
    auto* p = static_cast<uint8_t*>(result.value.raw());
    for (uint64_t i = 0; i < bytes; ++i) p[i] = p[i] != 0 ? 1 : 0;
  }
  result.moved = true;
  drop_contents(t);
  return result;
}

TensorReader::ExternalFile& TensorReader::open(const std::string& location) {
  const auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  namespace fs = std::filesystem;
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute()) {
    invalid("external data: a path relative to the model's folder is needed, given '" + location +
            "'");
  }
  std::error_code failed;
  const fs::path folder = fs::canonical(folder_.empty() ? "." : folder_, failed);
  if (failed) {
    throw Error(ErrorCode::kFile, "external data: folder '" + folder_ + "' cannot be read");
  }
  const fs::path path = fs::weakly_canonical(folder / relative, failed);
  if (failed || !is_below(path, folder)) {
    invalid("external data '" + location + "' leads outside the model's folder");
  }
  if (!fs::is_regular_file(path, failed) || failed) {
    throw Error(ErrorCode::kFile, "external data '" + location + "': no such file in '" + folder_ +
                                      "': copy it beside the model");
  }
  ExternalFile file{path, fs::file_size(path, failed), 0};
  if (failed) throw Error(ErrorCode::kFile, "external data '" + location + "' cannot be read");
  return files_.emplace(location, std::move(file)).first->second;
}

void TensorReader::read_external(const onnx::TensorProto& t, char* out, uint64_t bytes) {
  std::string location;
  uint64_t offset = 0, length = 0;
  bool has_length = false;
  for (const onnx::StringStringEntryProto& e : t.external_data()) {
    if (e.key() == "location") location = e.value();
    if (e.key() == "offset" && !parse_number(e.value(), &offset)) {
      invalid("external data: bad offset '" + e.value() + "'");
    }
    if (e.key() == "length") {
      has_length = true;
      if (!parse_number(e.value(), &length)) {
        invalid("external data: bad length '" + e.value() + "'");
      }
    }
  }
  ExternalFile& file = open(location);
  if (has_length && length != bytes) {
    invalid("external data: the shape needs " + std::to_string(bytes) + " bytes, 'length' says " +
            std::to_string(length));
  }
  if (offset > file.size || bytes > file.size - offset) {
    invalid("external data: " + std::to_string(bytes) + " bytes at " + std::to_string(offset) +
            " of '" + location + "', which has " + std::to_string(file.size));
  }
  if (out == nullptr || bytes == 0) return;
  // Each byte belongs to one tensor, or to a few tied ones: a small model cannot ask for more
  // memory than the files it came with.
  file.read += bytes;
  if (file.read / 8 > file.size) {
    invalid("external data: tensors overlap in '" + location + "'");
  }
  std::ifstream in(file.path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(out, static_cast<std::streamsize>(bytes));
  if (!in) throw Error(ErrorCode::kFile, "external data '" + location + "' cannot be read");
}

}  // namespace trainrt
