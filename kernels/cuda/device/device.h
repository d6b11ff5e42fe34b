// What device code stands on. The kernels here and the generated ones keep to what this header
// offers, so that nvcc, NVRTC and (with tests/cuda/emulator/cuda.h before it) any C++ compiler
// takes them: blocks of up to 256 threads, static __shared__ arrays, __syncthreads, full-warp
// shuffles, 32-bit integer atomics. Sums have a fixed order: no atomics on floats.
#ifndef TRAINRT_KERNELS_CUDA_DEVICE_DEVICE_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_DEVICE_H_

#ifndef TRAINRT_KERNEL  // of an emulation
/// A kernel `name(Arguments args)`.
#define TRAINRT_KERNEL(name, Arguments) \
  extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Arguments args)
#endif

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

/// Before a loop whose arrays are to stay in registers.
#ifdef TRAINRT_EMULATED_CUDA
#define TRAINRT_UNROLL
#else
#define TRAINRT_UNROLL _Pragma("unroll")
#endif

namespace trainrt::cuda {

using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

static_assert(sizeof(i64) == 8 && sizeof(u32) == 4);

/// How bfloat16 lies in memory; arithmetic is in float.
struct bf16 {
  unsigned short bits;
};

__device__ inline float bits_to_float(u32 bits) {
#ifdef TRAINRT_EMULATED_CUDA
  return __builtin_bit_cast(float, bits);
#else
  return __uint_as_float(bits);
#endif
}
__device__ inline u32 float_to_bits(float x) {
#ifdef TRAINRT_EMULATED_CUDA
  return __builtin_bit_cast(u32, x);
#else
  return __float_as_uint(x);
#endif
}

__device__ inline float widen(bf16 x) { return bits_to_float(u32{x.bits} << 16); }
__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }

/// To the nearest, ties to even; NaN stays NaN.
__device__ inline bf16 to_bf16(float x) {
  const u32 bits = float_to_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<unsigned short>((bits >> 16) | 0x40u)};
  }
  return {static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <typename T>
struct Stored {
  __device__ static T from(T x) { return x; }
};
template <>
struct Stored<bf16> {
  __device__ static bf16 from(float x) { return to_bf16(x); }
};

/// Element i of an array of T, or of floats that are kept as bfloat16.
template <typename T>
__device__ inline T load(const void* data, int half, i64 i) {
  return half ? widen(static_cast<const bf16*>(data)[i]) : static_cast<const float*>(data)[i];
}
template <>
__device__ inline double load<double>(const void* data, int, i64 i) {
  return static_cast<const double*>(data)[i];
}
template <typename T>
__device__ inline void store(void* data, int half, i64 i, T value) {
  if (half) {
    static_cast<bf16*>(data)[i] = to_bf16(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}
template <>
__device__ inline void store<double>(void* data, int, i64 i, double value) {
  static_cast<double*>(data)[i] = value;
}

/// Several elements that are read or written at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};

/// Number of this thread among all of a one-dimensional grid.
__device__ inline i64 global_index() {
  return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline i64 global_size() { return static_cast<i64>(gridDim.x) * blockDim.x; }

struct SumOf {
  template <typename T>
  __device__ static T join(T a, T b) {
    return a + b;
  }
};
struct MaxOf {  // NaN wins
  template <typename T>
  __device__ static T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct MinOf {
  template <typename T>
  __device__ static T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

/// Joins a value of every thread of the block, in a fixed order; all threads get the result. Every
/// thread must call it; blockDim.x is a multiple of 32, y and z are 1.
template <typename Join, typename T>
__device__ T block_join(T value, T identity) {
  __shared__ T warps[8];
  for (int distance = 16; distance > 0; distance /= 2) {
    value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();  // results of a call before this one have been read
  if (lane == 0) warps[warp] = value;
  __syncthreads();
  value = lane < blockDim.x / 32 ? warps[lane] : identity;
  for (int distance = 4; distance > 0; distance /= 2) {
    value = Join::join(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return __shfl_sync(0xffffffffu, value, 0);
}

/// As block_join<SumOf>, among kLanes neighbouring threads: a power of two, at most 32.
template <int kLanes, typename T>
__device__ T group_sum(T value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

/// Sums of the columns of a block whose threads are kRows rows of kColumns, both powers of two with
/// kRows * kColumns = 256. The first row gets the results. Every thread must call it.
template <int kColumns, int kRows, typename T>
__device__ T column_sum(T value) {
  __shared__ T sums[256];
  __syncthreads();  // results of a call before this one have been read
  sums[threadIdx.x] = value;
  __syncthreads();
  for (u32 rows = kRows / 2; rows > 0; rows /= 2) {
    if (threadIdx.x < rows * kColumns) sums[threadIdx.x] += sums[threadIdx.x + rows * kColumns];
    __syncthreads();
  }
  return sums[threadIdx.x];
}

/// Notes that the contents of this node's operands are not what it can compute with, such as an
/// index out of range; the executor throws for the first such node.
__device__ inline void report(int* status, int step) { atomicCAS(status, 0, step + 1); }

// Formulas of generated kernels (kernels/cuda/codegen_ops.cc), as in kernels/reference.

template <typename To, typename From>
__device__ inline To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From));
  union {
    From from;
    To to;
  } bits;
  bits.from = x;
  return bits.to;
}

/// Towards zero and into [least, most]; below and above are those bounds as From, the upper one
/// plus 1. NaN becomes 0.
template <typename To, typename From>
__device__ inline To to_integer(From x, From below, From above, To least, To most) {
  if (x != x) return 0;
  return x <= below ? least : x >= above ? most : static_cast<To>(x);
}

template <typename T>
__device__ inline T sigmoid(T x) {
  const T e = exp(-fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
template <typename T>
__device__ inline T softplus(T x) {
  return (x > 0 ? x : T(0)) + log1p(exp(-fabs(x)));
}
template <typename T>
__device__ inline T silu(T x) {
  if (fabs(x) == T(INFINITY)) return x > 0 ? x : T(0);
  return x * sigmoid(x);
}
template <typename T>
__device__ inline T silu_grad(T dy, T x) {
  if (dy == 0) return dy;
  if (fabs(x) == T(INFINITY)) return x > 0 ? dy : T(0);
  const T e = exp(-fabs(x)), s = x >= 0 ? 1 / (1 + e) : e / (1 + e);
  return dy * (s + x * e / ((1 + e) * (1 + e)));
}
template <typename T>
__device__ inline T gelu(T x) {
  if (fabs(x) == T(INFINITY)) return x > 0 ? x : T(0);
  return x * (T(0.5) * erfc(x * T(-0.7071067811865476)));
}
template <typename T>
__device__ inline T gelu_grad(T dy, T x) {
  if (dy == 0) return dy;
  if (fabs(x) == T(INFINITY)) return x > 0 ? dy : T(0);
  const T density = T(0.3989422804014327) * exp(T(-0.5) * x * x);
  return dy * (T(0.5) * erfc(x * T(-0.7071067811865476)) + x * density);
}
// (1 + tanh(u)) / 2 is sigmoid(2 u), which loses no digits where it is small.
template <typename T>
__device__ inline T gelu_tanh(T x) {
  if (fabs(x) == T(INFINITY)) return x > 0 ? x : T(0);
  return x * sigmoid(T(1.5957691216057308) * (x + T(0.044715) * x * x * x));
}
template <typename T>
__device__ inline T gelu_tanh_grad(T dy, T x) {
  if (dy == 0) return dy;
  if (fabs(x) == T(INFINITY)) return x > 0 ? dy : T(0);
  const T u = T(1.5957691216057308) * (x + T(0.044715) * x * x * x);
  const T inner = T(1.5957691216057308) * (1 + T(0.134145) * x * x);
  const T e = exp(-fabs(u)), s = u >= 0 ? 1 / (1 + e) : e / (1 + e);
  return dy * (s + (e == 0 ? T(0) : x * inner * (e / ((1 + e) * (1 + e)))));
}

template <typename T>
__device__ inline T clip(T x, T lo, T hi) {
  const T low = x < lo ? lo : x;
  return low > hi ? hi : low;
}
template <typename T>
__device__ inline T float_mod(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Integers: what C++ leaves undefined is 0, or wraps.
template <typename T>
__device__ inline T integer_div(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return static_cast<T>(0 - static_cast<u64>(a));
  return static_cast<T>(a / b);
}
template <typename T>
__device__ inline T integer_fmod(T a, T b) {
  if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
  return static_cast<T>(a % b);
}
template <typename T>
__device__ inline T integer_mod(T a, T b) {
  const T r = integer_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}
template <typename T>
__device__ inline T integer_pow(T a, T b) {
  if (b < 0) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
  u64 power = 1, base = static_cast<u64>(a);
  for (; b > 0; b = static_cast<T>(b / 2), base *= base) {
    if (b % 2 != 0) power *= base;
  }
  return static_cast<T>(power);
}
template <typename T>
__device__ inline T shift_left(T a, T b) {
  if (b < 0 || static_cast<u64>(b) >= sizeof(T) * 8) return 0;
  return static_cast<T>(static_cast<u64>(a) << b);
}
template <typename T>
__device__ inline T shift_right(T a, T b) {
  if (b < 0 || static_cast<u64>(b) >= sizeof(T) * 8) return 0;
  return static_cast<T>(a >> b);
}

// RoundTo in units of the grid's spacing around x, which powers of two keep exact.
enum class Rounding { kNearestEven, kNearestUp, kUp, kDown };
enum class Overflow { kSaturate, kInfinity, kNan };

template <Rounding kRounding, Overflow kOverflow>
__device__ inline double round_to(double x, int mantissa, int least, double most) {
  if (x != x) return x;
  double y = x;
  if (fabs(x) != double(INFINITY)) {
    const int exponent = x == 0 ? least : ilogb(x) > least ? ilogb(x) : least;
    const int unit = exponent - mantissa;
    y = ldexp(x, -unit);
    if (kRounding == Rounding::kNearestEven) y = nearbyint(y);
    if (kRounding == Rounding::kNearestUp) y = round(y);
    if (kRounding == Rounding::kUp) y = x < 0 ? floor(y) : ceil(y);
    if (kRounding == Rounding::kDown) y = trunc(y);
    y = ldexp(y, unit);
    if (fabs(y) <= most) return y;
  }
  if (kOverflow == Overflow::kNan) return NAN;
  return copysign(kOverflow == Overflow::kInfinity ? double(INFINITY) : most, y);
}

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_DEVICE_H_
