#include "runtime/data/dataset.h"

#include <sys/stat.h>

#include <cstring>

#include "runtime/data/csv.h"
#include "runtime/data/idx.h"
#include "runtime/data/image_folder.h"
#include "runtime/data/npy.h"
#include "runtime/data/safetensors.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

bool is_folder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Tensor gather_rows(const Tensor& source, std::span<const int64_t> indices) {
  Shape shape = source.shape();
  shape[0] = static_cast<int64_t>(indices.size());
  Tensor out(source.dtype(), shape);
  const int64_t rows = source.shape()[0];
  const size_t row = rows > 0 ? source.bytes() / static_cast<size_t>(rows) : 0;
  const char* from = static_cast<const char*>(source.raw());
  char* to = static_cast<char*>(out.raw());
  for (const int64_t i : indices) {
    if (i < 0 || i >= rows) {
      throw Error(ErrorCode::kInput,
                  "sample " + std::to_string(i) + " of " + std::to_string(rows) + " asked for");
    }
    if (row > 0) std::memcpy(to, from + static_cast<size_t>(i) * row, row);
    to += row;
  }
  return out;
}

TensorDataset::TensorDataset(TensorMap arrays, std::vector<std::string> classes)
    : arrays_(std::move(arrays)) {
  classes_ = std::move(classes);
}

int64_t TensorDataset::size() const {
  const std::string* first = nullptr;
  int64_t count = 0;
  for (const auto& [name, array] : arrays_) {
    if (array.rank() == 0) continue;
    const int64_t rows = array.shape()[0];
    if (first == nullptr) {
      first = &name;
      count = rows;
    } else if (rows != count) {
      throw Error(ErrorCode::kInput,
                  "the arrays differ in their number of samples (first axis): '" + *first +
                      "' has " + std::to_string(count) + ", '" + name + "' has " +
                      std::to_string(rows) +
                      "; use --batch all if the first axis means something else");
    }
  }
  return first == nullptr && !arrays_.empty() ? 1 : count;
}

std::vector<std::string> TensorDataset::fields() const {
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays_) names.push_back(name);
  return names;
}

TensorMap TensorDataset::batch(std::span<const int64_t> indices, const BatchContext&) const {
  TensorMap out;
  for (const auto& [name, array] : arrays_) {
    out[name] = array.rank() == 0 ? array : gather_rows(array, indices);
  }
  return out;
}

DataKind data_kind(const std::string& spec) {
  if (is_folder(spec)) return DataKind::kImageFolder;
  if (spec.ends_with(".npz")) return DataKind::kNpz;
  if (spec.ends_with(".npy")) return DataKind::kNpy;
  if (spec.ends_with(".csv") || spec.ends_with(".csv.gz")) return DataKind::kCsv;
  if (spec.ends_with(".safetensors")) return DataKind::kSafetensors;
  if (spec.find("idx") != std::string::npos) return DataKind::kIdx;
  throw Error(ErrorCode::kUsage,
              "cannot tell what '" + spec +
                  "' holds: .npz, .npy, .csv, .safetensors, 'images.idx,labels.idx' or a folder of "
                  "class folders of images can be read");
}

std::unique_ptr<Dataset> open_dataset(const std::string& spec, const DataOptions& options) {
  const DataKind kind = data_kind(spec);
  const ImageOptions& image = options.image;
  const auto refuse = [&](bool given, const char* option, const char* what) {
    if (!given) return;
    throw Error(ErrorCode::kUsage,
                std::string(option) + " goes with " + what + ", not with '" + spec + "'");
  };
  const bool images = kind == DataKind::kImageFolder || kind == DataKind::kIdx;
  refuse(!images && (!image.mean.empty() || !image.std.empty()), "--mean and --std", "images");
  refuse(kind != DataKind::kImageFolder && (image.flip || image.crop), "--augment",
         "folders of images");
  refuse(kind != DataKind::kImageFolder && image.resize, "--image-size", "folders of images");
  refuse(kind != DataKind::kCsv && !options.target_column.empty(), "--target-column", ".csv files");
  switch (kind) {
    case DataKind::kImageFolder:
      return open_image_folder(spec, options);
    case DataKind::kCsv:
      return open_csv(spec, options);
    case DataKind::kIdx:
      return open_idx(spec, options);
    case DataKind::kNpz:
      return std::make_unique<TensorDataset>(read_npz(spec));
    case DataKind::kNpy:
      return std::make_unique<TensorDataset>(TensorMap{{"data", read_npy(spec)}});
    case DataKind::kSafetensors: {
      const auto tensors = read_safetensors(spec);
      return std::make_unique<TensorDataset>(TensorMap(tensors.begin(), tensors.end()));
    }
  }
  throw_internal(__FILE__, __LINE__, "kind", "unknown kind of data");
}

}  // namespace trainrt
