#include "runtime/data/idx.h"

#include <algorithm>
#include <cstring>

#include "runtime/data/file.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

bool idx_type(uint8_t code, DType* out) {
  switch (code) {
    case 0x08:
      *out = DType::kUInt8;
      return true;
    case 0x09:
      *out = DType::kInt8;
      return true;
    case 0x0B:
      *out = DType::kInt16;
      return true;
    case 0x0C:
      *out = DType::kInt32;
      return true;
    case 0x0D:
      *out = DType::kFloat32;
      return true;
    case 0x0E:
      *out = DType::kFloat64;
      return true;
    default:
      return false;
  }
}

/// Images as float32 with a channel axis.
Tensor to_images(const Tensor& raw, const ImageOptions& options) {
  Tensor images = raw.to(DType::kFloat32);
  if (raw.rank() == 3) {
    Shape shape = raw.shape();
    shape.insert(options.channels_last ? shape.end() : shape.begin() + 1, 1);
    images = images.reshape(shape);
  }
  const float scale = raw.dtype() == DType::kUInt8 ? 255.0f : 1.0f;
  const float mean = options.mean.empty() ? 0.0f : options.mean[0];
  const float deviation = options.std.empty() ? 1.0f : options.std[0];
  for (float& v : images.data<float>()) v = (v / scale - mean) / deviation;
  return images;
}

}  // namespace

Tensor parse_idx(std::string_view bytes, const std::string& what) {
  const auto fail = [&](const std::string& why) { throw Error(ErrorCode::kFile, what + why); };
  DType dtype = DType::kUInt8;
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0 ||
      !idx_type(static_cast<uint8_t>(bytes[2]), &dtype)) {
    fail(" is not an IDX file");
  }
  const auto rank = static_cast<size_t>(static_cast<uint8_t>(bytes[3]));
  if (bytes.size() < 4 + 4 * rank) fail(": cut off in its header");
  Shape shape;
  for (size_t d = 0; d < rank; ++d) {
    uint32_t dim = 0;
    for (size_t i = 0; i < 4; ++i) dim = dim << 8 | static_cast<uint8_t>(bytes[4 + 4 * d + i]);
    shape.push_back(dim);
  }
  bytes.remove_prefix(4 + 4 * rank);
  const size_t width = dtype_size(dtype);
  if (static_cast<uint64_t>(element_count(shape)) != bytes.size() / width ||
      bytes.size() % width != 0) {
    fail(": shape " + to_string(shape) + " does not fit its " + std::to_string(bytes.size()) +
         " bytes of data");
  }
  Tensor out(dtype, shape);
  char* to = static_cast<char*>(out.raw());
  for (size_t i = 0; i < bytes.size(); i += width) {
    for (size_t k = 0; k < width; ++k) to[i + k] = bytes[i + width - 1 - k];
  }
  return out;
}

std::unique_ptr<Dataset> open_idx(const std::string& spec, const DataOptions& options) {
  const size_t comma = spec.find(',');
  const std::string images = spec.substr(0, comma);
  TensorMap arrays;
  arrays["data"] = to_images(parse_idx(read_file(images), "'" + images + "'"), options.image);
  if (comma != std::string::npos) {
    const std::string labels = spec.substr(comma + 1);
    const Tensor target = parse_idx(read_file(labels), "'" + labels + "'");
    arrays["target"] = is_float(target.dtype()) ? target : target.to(DType::kInt64);
  }
  return std::make_unique<TensorDataset>(std::move(arrays));
}

}  // namespace trainrt
