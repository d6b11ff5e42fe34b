#include "kernels/cuda/device/softmax.h"

#include "kernels/cuda/device/device.h"

namespace trainrt::cuda {
namespace {

/// Element i of a row is at row_offset + i * inner.
__device__ inline i64 row_offset(const SoftmaxArguments& args, i64 row) {
  return row / args.inner * args.axis * args.inner + row % args.inner;
}

template <typename T, bool kLog>
__device__ void forward(const SoftmaxArguments& args) {
  for (i64 row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const i64 at = row_offset(args, row);
    const T* x = static_cast<const T*>(args.x) + at;
    T* y = static_cast<T*>(args.out) + at;
    T largest = -static_cast<T>(INFINITY);
    for (i64 i = threadIdx.x; i < args.axis; i += blockDim.x) {
      largest = MaxOf::join(largest, x[i * args.inner]);
    }
    largest = block_join<MaxOf>(largest, -static_cast<T>(INFINITY));
    T sum = 0;
    for (i64 i = threadIdx.x; i < args.axis; i += blockDim.x) {
      sum += exp(x[i * args.inner] - largest);
    }
    sum = block_join<SumOf>(sum, T(0));
    const T shift = kLog ? log(sum) : T(1) / sum;
    for (i64 i = threadIdx.x; i < args.axis; i += blockDim.x) {
      const T v = x[i * args.inner] - largest;
      y[i * args.inner] = kLog ? v - shift : exp(v) * shift;
    }
  }
}

/// dx = (dy - sum dy y) y, or of the logarithm dy - e^y sum dy
template <typename T, bool kLog>
__device__ void backward(const SoftmaxArguments& args) {
  for (i64 row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const i64 at = row_offset(args, row);
    const T* dy = static_cast<const T*>(args.x) + at;
    const T* y = static_cast<const T*>(args.y) + at;
    T* dx = static_cast<T*>(args.out) + at;
    T sum = 0;
    for (i64 i = threadIdx.x; i < args.axis; i += blockDim.x) {
      sum += kLog ? dy[i * args.inner] : dy[i * args.inner] * y[i * args.inner];
    }
    sum = block_join<SumOf>(sum, T(0));
    for (i64 i = threadIdx.x; i < args.axis; i += blockDim.x) {
      const i64 j = i * args.inner;
      dx[j] = kLog ? dy[j] - exp(y[j]) * sum : (dy[j] - sum) * y[j];
    }
  }
}

}  // namespace

#define SOFTMAX(T, suffix)                                                                        \
  TRAINRT_KERNEL(softmax_##suffix, SoftmaxArguments) { forward<T, false>(args); }                 \
  TRAINRT_KERNEL(log_softmax_##suffix, SoftmaxArguments) { forward<T, true>(args); }              \
  TRAINRT_KERNEL(softmax_grad_##suffix, SoftmaxArguments) { backward<T, false>(args); }           \
  TRAINRT_KERNEL(log_softmax_grad_##suffix, SoftmaxArguments) { backward<T, true>(args); }

SOFTMAX(float, f32)
SOFTMAX(double, f64)

}  // namespace trainrt::cuda
