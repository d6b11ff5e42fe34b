// Batches of a dataset in an order that depends on (seed, epoch) only.
#ifndef TRAINRT_RUNTIME_DATA_LOADER_H_
#define TRAINRT_RUNTIME_DATA_LOADER_H_

#include <cstdint>
#include <vector>

#include "runtime/data/dataset.h"

namespace trainrt {

struct LoaderOptions {
  int64_t batch = 32;
  bool whole = false;  // every array whole: one batch an epoch
  bool shuffle = true;
  bool drop_last = false;  // leave out a last batch that is not full
  bool augment = false;
  uint64_t seed = 0;
};

/// Any batch of any epoch can be had directly, so a run resumes anywhere. Not thread-safe.
class Loader {
 public:
  /// The dataset must outlive the loader. Throws Error(kInput) when there is not a single batch.
  Loader(const Dataset& dataset, const LoaderOptions& options);

  int64_t batches_per_epoch() const { return batches_; }
  /// Samples in a batch; 0 for whole arrays of a dataset whose arrays do not agree.
  int64_t samples(int64_t batch) const;
  TensorMap batch(int64_t epoch, int64_t index);
  /// Another order from now on.
  void set_seed(uint64_t seed);

 private:
  const std::vector<int64_t>& order(int64_t epoch);

  const Dataset& dataset_;
  LoaderOptions options_;
  int64_t samples_ = 0, batches_ = 1;
  int64_t ordered_epoch_ = -1;
  std::vector<int64_t> order_;
};

/// 0 … n-1 shuffled (Fisher-Yates on a counter-based generator): the same on every machine.
std::vector<int64_t> permutation(int64_t n, uint64_t seed, int64_t epoch);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_LOADER_H_
