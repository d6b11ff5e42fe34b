// Targets that Highway compiles our loops for: the baseline, AVX2 and AVX-512 on x86. Included
// before any header of Highway, in every file that uses it.
#ifndef TRAINRT_KERNELS_CPU_SIMD_H_
#define TRAINRT_KERNELS_CPU_SIMD_H_

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)

#endif  // TRAINRT_KERNELS_CPU_SIMD_H_
