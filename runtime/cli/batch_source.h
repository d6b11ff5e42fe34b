// Batches for a model: a dataset, its order, and the names and shapes that the model wants.
#ifndef TRAINRT_RUNTIME_CLI_BATCH_SOURCE_H_
#define TRAINRT_RUNTIME_CLI_BATCH_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/cli/arguments.h"
#include "runtime/cli/fields.h"
#include "runtime/data/dataset.h"
#include "runtime/data/loader.h"
#include "trainrt/module.h"

namespace trainrt::cli {

struct SourceOptions {
  std::string spec;  // of the data
  bool targets = true;
  bool output_grads = false;
  bool shuffle = false, augment = false, drop_last = false;
  std::string batch;  // as --batch
  uint64_t seed = 0;
  std::vector<std::string> classes;  // fixed by the training data
};

class BatchSource {
 public:
  /// Opens the data and matches its arrays; notes go to stderr. Throws Error.
  BatchSource(const Module& module, const DataArgs& args, const TensorMap& fixed,
              const SourceOptions& options);

  Loader& loader() { return *loader_; }
  const Dataset& dataset() const { return *dataset_; }
  /// Samples of a batch, 0 when arrays are taken whole.
  int64_t batch_size() const { return batch_size_; }
  bool whole() const { return batch_size_ == 0; }
  TensorMap batch(int64_t epoch, int64_t index);
  /// Every array whole.
  TensorMap whole_batch();

 private:
  TensorMap rename(TensorMap arrays) const;

  const Module& module_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Loader> loader_;
  FieldMap fields_;
  int64_t batch_size_ = 0;
};

/// Made-up inputs (targets come later: they depend on the loss) and a note that says so.
TensorMap made_up_inputs(const Module& module, const DataArgs& args, uint64_t seed,
                         const TensorMap& fixed);

/// Losses for a batch when none are given: cross_entropy for integer targets, mse for others; says
/// which. Throws Error(kUsage) when there is no target.
std::vector<std::string> default_losses(const TensorMap& batch);

/// Targets of shape [n] for outputs of shape [n,1] get that shape, when a loss compares values.
void fit_column_targets(const Module& module, const std::vector<std::string>& losses,
                        TensorMap* batch);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_BATCH_SOURCE_H_
