// Threads of the CPU kernels: OpenMP, the runtime that oneDNN uses too.
#ifndef TRAINRT_KERNELS_CPU_THREADS_H_
#define TRAINRT_KERNELS_CPU_THREADS_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace trainrt {

/// Threads that kernels planned or run from now on use; at least 1. Call it between steps.
void set_cpu_threads(int n);
int cpu_threads();

/// Below this many elements an elementwise loop stays on one thread.
inline constexpr int64_t kParallelElements = 16384;

/// Calls f(begin, end) for disjoint ranges that cover [0, n), on up to cpu_threads() threads;
/// no range is smaller than `grain` unless it is the only one. f must not throw.
template <typename F>
void parallel_ranges(int64_t n, int64_t grain, const F& f) {
  if (n <= 0) return;
  const int64_t parts = std::min<int64_t>(omp_get_max_threads(), n / std::max<int64_t>(grain, 1));
  if (parts <= 1 || omp_in_parallel()) {
    f(int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    const int64_t t = omp_get_thread_num(), count = omp_get_num_threads();
    const int64_t begin = n / count * t + std::min(t, n % count);
    f(begin, begin + n / count + (t < n % count ? 1 : 0));
  }
}

/// parallel_ranges over items that each touch `elements` elements.
template <typename F>
void parallel_items(int64_t items, int64_t elements, const F& f) {
  const int64_t grain = (kParallelElements / 2) / std::max<int64_t>(elements, 1);
  parallel_ranges(items, std::max<int64_t>(grain, 1), f);
}

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_THREADS_H_
