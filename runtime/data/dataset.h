// Samples by index, whatever file they come from.
#ifndef TRAINRT_RUNTIME_DATA_DATASET_H_
#define TRAINRT_RUNTIME_DATA_DATASET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainrt/tensor.h"

namespace trainrt {

/// What decides random augmentation, so that a resumed run draws the same.
struct BatchContext {
  uint64_t seed = 0;
  int64_t epoch = 0;
  bool augment = false;
};

/// Arrays as they are in the data: fields named after the model's inputs and `target` (or
/// `target/OUTPUT`). Immutable, may be shared between threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Number of samples. Throws Error(kInput) when the arrays disagree about it.
  virtual int64_t size() const = 0;
  /// Names of the arrays.
  virtual std::vector<std::string> fields() const = 0;
  /// The samples `indices`, stacked along the first axis.
  virtual TensorMap batch(std::span<const int64_t> indices, const BatchContext& context) const = 0;
  /// Every array whole, whatever its axes mean.
  virtual TensorMap whole() const = 0;
  /// Names of classes by id; empty when the targets are numbers.
  virtual const std::vector<std::string>& classes() const { return classes_; }

 protected:
  std::vector<std::string> classes_;
};

/// Arrays in memory. The first axis counts samples; arrays of rank 0 go whole into every batch.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(TensorMap arrays, std::vector<std::string> classes = {});
  int64_t size() const override;
  std::vector<std::string> fields() const override;
  TensorMap batch(std::span<const int64_t> indices, const BatchContext& context) const override;
  TensorMap whole() const override { return arrays_; }

 private:
  TensorMap arrays_;
};

/// Rows of `source` (first axis) in the order of `indices`.
Tensor gather_rows(const Tensor& source, std::span<const int64_t> indices);

/// What the model wants of images, and how to prepare them.
struct ImageOptions {
  int64_t channels = 3, height = 0, width = 0;  // 0: not known
  bool channels_last = false;
  std::vector<float> mean = {}, std = {};  // one per channel, or one for all; empty: 0 and 1
  bool flip = false, crop = false;
  bool resize = false;  // the size was asked for, not read from the model
};

struct DataOptions {
  std::string target_column;  // of a .csv: name or index; empty: the last; "none": no target
  ImageOptions image;
  /// Class names fixed by the training data; another set throws Error(kInput).
  std::vector<std::string> classes;
};

enum class DataKind : uint8_t { kNpz, kNpy, kCsv, kSafetensors, kIdx, kImageFolder };

/// From the name, and whether it is a folder. Throws Error(kUsage) for a form nobody knows.
DataKind data_kind(const std::string& spec);

/// Opens `.npz`, `.npy` (one feature array), `.csv`, `.safetensors`, `images.idx,labels.idx` (both
/// may be .gz) or a folder of class folders. Features of files without names are called "data".
/// Throws Error(kUsage) for a form it does not know or options that do not go with it, Error(kFile)
/// for a broken file.
std::unique_ptr<Dataset> open_dataset(const std::string& spec, const DataOptions& options);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_DATASET_H_
