#ifndef TRAINRT_KERNELS_CUDA_DEVICE_PARTS_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_PARTS_H_

namespace trainrt::cuda {

/// out[q][c] = sum of in[q][c][part] over parts; with out1 null q is 0 only.
struct SumPartsArguments {
  const void *in0, *in1;
  void *out0, *out1;
  long long columns;
  int parts;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_PARTS_H_
