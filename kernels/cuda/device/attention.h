#ifndef TRAINRT_KERNELS_CUDA_DEVICE_ATTENTION_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_ATTENTION_H_

namespace trainrt::cuda {

/// Rows of elements by batch entry, head and token; neighbours within a row.
struct HeadRows {
  void* data;
  long long first;  // element that all offsets count from
  long long batch, head, token;
  int half;  // kept as bfloat16
};

/// Forward: q, k, v to y and log-sums. Backward: dy, q, k, v, y, log-sums to dq, dk, dv.
struct AttentionArguments {
  HeadRows q, k, v, y, dy, dq, dk, dv;
  void* log_sums;    // [batch, heads, queries]
  void* sums;        // backward: of dy y, in the same order
  const void* mask;  // added to the scores; null: none
  long long mask_strides[4];
  long long batch, heads, kv_heads, queries, keys, size, value_size;
  double scale;
  int causal;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_ATTENTION_H_
