// Stands in for CUDA's language where a C++ compiler reads device code: include it before that
// code. The block's threads are fibers (fibers.h), so barriers and shuffles mean what they mean on
// a GPU.
#ifndef TRAINRT_TESTS_CUDA_EMULATOR_CUDA_H_
#define TRAINRT_TESTS_CUDA_EMULATOR_CUDA_H_

#ifdef TRAINRT_EMULATED_LIBRARY  // compiled by the hundred: parsing <math.h> is half of the time
#define TRAINRT_MATH1(name)        \
  extern "C" double name(double);  \
  extern "C" float name##f(float); \
  inline float name(float x) { return name##f(x); }
#define TRAINRT_MATH2(name)               \
  extern "C" double name(double, double); \
  extern "C" float name##f(float, float); \
  inline float name(float x, float y) { return name##f(x, y); }
TRAINRT_MATH1(exp)
TRAINRT_MATH1(log)
TRAINRT_MATH1(log1p)
TRAINRT_MATH1(sqrt)
TRAINRT_MATH1(sin)
TRAINRT_MATH1(cos)
TRAINRT_MATH1(tan)
TRAINRT_MATH1(asin)
TRAINRT_MATH1(acos)
TRAINRT_MATH1(atan)
TRAINRT_MATH1(sinh)
TRAINRT_MATH1(cosh)
TRAINRT_MATH1(tanh)
TRAINRT_MATH1(asinh)
TRAINRT_MATH1(acosh)
TRAINRT_MATH1(atanh)
TRAINRT_MATH1(erf)
TRAINRT_MATH1(erfc)
TRAINRT_MATH1(fabs)
TRAINRT_MATH1(floor)
TRAINRT_MATH1(ceil)
TRAINRT_MATH1(round)
TRAINRT_MATH1(trunc)
TRAINRT_MATH1(nearbyint)
TRAINRT_MATH2(pow)
TRAINRT_MATH2(fmod)
TRAINRT_MATH2(copysign)
extern "C" int ilogb(double);
extern "C" double ldexp(double, int);
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define memcpy __builtin_memcpy
#else
#include <math.h>
#include <string.h>
#endif

#define TRAINRT_EMULATED_CUDA 1
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __shared__ static  // blocks run one after the other

namespace trainrt_emulated {

struct Indices {
  unsigned x, y, z;
};

struct Context {
  Indices thread, block, block_size, grid_size;
  void (*block_barrier)();
  void (*warp_barrier)();
  unsigned long long lanes[8][32];
};

struct Registration {
  Registration(const char* name, void* function);
};

}  // namespace trainrt_emulated

extern "C" trainrt_emulated::Context* trainrt_emulated_context;

#define threadIdx (trainrt_emulated_context->thread)
#define blockIdx (trainrt_emulated_context->block)
#define blockDim (trainrt_emulated_context->block_size)
#define gridDim (trainrt_emulated_context->grid_size)

#ifdef TRAINRT_EMULATED_LIBRARY  // opened at run time, which finds kernels by name
#define TRAINRT_KERNEL(name, Arguments) extern "C" void name(const Arguments& args)
#else
#define TRAINRT_KERNEL(name, Arguments)                                                \
  extern "C" void name(const Arguments& args);                                         \
  static const trainrt_emulated::Registration name##_registration(                     \
      #name, reinterpret_cast<void*>(static_cast<void (*)(const Arguments&)>(&name))); \
  extern "C" void name(const Arguments& args)
#endif

inline void __syncthreads() { trainrt_emulated_context->block_barrier(); }
inline void __syncwarp(unsigned = 0xffffffffu) { trainrt_emulated_context->warp_barrier(); }

namespace trainrt_emulated {

template <typename T>
T exchange(T value, unsigned from) {
  static_assert(sizeof(T) <= 8);
  Context* c = trainrt_emulated_context;
  const unsigned warp = c->thread.x / 32, lane = c->thread.x % 32;
  memcpy(&c->lanes[warp][lane], &value, sizeof(T));
  c->warp_barrier();
  memcpy(&value, &c->lanes[warp][from % 32], sizeof(T));
  c->warp_barrier();
  return value;
}

}  // namespace trainrt_emulated

template <typename T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  return trainrt_emulated::exchange(value, lane);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return trainrt_emulated::exchange(value, (threadIdx.x % 32) ^ mask);
}
template <typename T>
T __shfl_down_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return trainrt_emulated::exchange(value, lane + distance < 32 ? lane + distance : lane);
}

template <typename T>
T atomicCAS(T* address, T expected, T value) {
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}
template <typename T>
T atomicMax(T* address, T value) {
  const T old = *address;
  if (value > old) *address = value;
  return old;
}
template <typename T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}

// Products that no sum is fused with; this code is compiled without such fusion.
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }

inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
template <typename T>
T min(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
T max(T a, T b) {
  return a > b ? a : b;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}

#endif  // TRAINRT_TESTS_CUDA_EMULATOR_CUDA_H_
