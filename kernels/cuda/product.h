// What products and convolutions share.
#ifndef TRAINRT_KERNELS_CUDA_PRODUCT_H_
#define TRAINRT_KERNELS_CUDA_PRODUCT_H_

#include <string>

#include "kernels/cuda/device/product.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

/// Both factors float64, float32, or kept as bfloat16; the result of the same type, of bfloat16
/// factors also float32, whose bias is float32.
Support takes_factors(const NodeView& node);

/// Of device functions by the types of factors and result: "f32", "bf16_f32", …
std::string product_suffix(const NodeView& node);

/// The type in which sums of products of this type are made: float32, float64, uint32 or uint64.
DType sum_type(DType dtype);

/// A sum over `inner` dims in parts, where results alone give too few blocks of work.
struct Parts {
  int64_t length = 0;  // a multiple of 16, unless it is all
  int count = 1;
};
Parts split_sum(int64_t blocks, int64_t inner);

/// What follows the sums of a product: parts are joined, the bias added, ReLU applied, and it is
/// rounded to the type of the result.
class Finish {
 public:
  Finish() = default;
  /// Bias i / inner % columns goes to result i; parts = 0: all sums are 0.
  Finish(const NodeView& node, const Scratch& scratch, int parts, int64_t inner, int64_t columns,
         bool relu);
  /// sums: [parts, result]; may be the result itself where there is one part of its type
  void run(const KernelArgs& args, const void* sums) const;

 private:
  JoinArguments join_{};
  bool bias_ = false;
  const gpu::Function* function_ = nullptr;
};

/// Of plans without a device.
std::unique_ptr<Kernel> no_kernel();

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_PRODUCT_H_
