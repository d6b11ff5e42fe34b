#ifndef TRAINRT_KERNELS_CUDA_DEVICE_MATMUL_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_MATMUL_H_

namespace trainrt::cuda {

/// c[batch] = a[batch] b[batch]; element (i, k) of a's matrix lies at i * a_row + k * a_column, and
/// so on. With several parts c is their sums [part, batch, m, n], without bias and ReLU.
struct MatMulArguments {
  static constexpr int kMaxRank = 16;
  const void *a, *b;
  const void* bias;  // or null
  void* c;
  long long m, n, k;
  long long a_row, a_column, b_row, b_column;
  long long batches;
  long long sizes[kMaxRank], a_strides[kMaxRank], b_strides[kMaxRank];  // outermost first
  long long part;                                                       // inner dims of one part
  int rank, parts;
  bool relu;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_MATMUL_H_
