// Stable sorts of rows of unsigned keys, in scratch.
#ifndef TRAINRT_KERNELS_CUDA_SORT_H_
#define TRAINRT_KERNELS_CUDA_SORT_H_

#include "kernels/cuda/device/sort.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

/// Rows of up to 2^31 - 1 keys of kUInt32 or kUInt64, of which the lower `bits` are not 0.
class RowSort {
 public:
  RowSort(int64_t rows, int64_t size, DType key, int bits, Scratch& scratch);

  /// Where the keys go before run().
  void* keys(const KernelArgs& k) const { return scratch_at<void>(k, keys_[0]); }
  void run(const KernelArgs& k) const;
  /// Afterwards: the keys in order, and the position in its row that each of them had.
  const void* sorted(const KernelArgs& k) const { return scratch_at<void>(k, keys_[result_]); }
  const unsigned* order(const KernelArgs& k) const {
    return scratch_at<unsigned>(k, order_[result_]);
  }

 private:
  int64_t rows_, size_, chunks_;
  int passes_ = 0;
  size_t result_ = 0;
  size_t keys_[2] = {0, 0}, order_[2] = {0, 0}, counts_ = 0;  // offsets in scratch
  const gpu::Function *small_ = nullptr, *count_ = nullptr, *scan_ = nullptr, *place_ = nullptr;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_SORT_H_
