#ifndef TRAINRT_KERNELS_CUDA_DEVICE_DETERMINANT_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_DETERMINANT_H_

namespace trainrt::cuda {

/// Square matrices, a thread for each; a thread's part of the scratch is `doubles` long.
struct DeterminantArguments {
  const void* x;
  void* out;
  double* scratch;
  long long count, n, doubles;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_DETERMINANT_H_
