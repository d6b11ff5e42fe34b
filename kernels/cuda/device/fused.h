#ifndef TRAINRT_KERNELS_CUDA_DEVICE_FUSED_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_FUSED_H_

namespace trainrt::cuda {

/// out[i] = sum over p of parts[p, i], in the order of the parts.
struct AddPartsArguments {
  const void* values;
  void* out;
  long long parts, size;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_FUSED_H_
