// Copies of runs of bytes and of strided boxes.
#ifndef TRAINRT_KERNELS_CPU_COPY_H_
#define TRAINRT_KERNELS_CPU_COPY_H_

#include <cstdint>
#include <cstring>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/threads.h"

namespace trainrt {

inline void copy_run(char* to, const char* from, size_t bytes) {
  if (bytes == 4) {
    std::memcpy(to, from, 4);
  } else if (bytes == 8) {
    std::memcpy(to, from, 8);
  } else {
    std::memcpy(to, from, bytes);
  }
}

inline void parallel_copy(void* to, const void* from, size_t bytes) {
  parallel_ranges(
      static_cast<int64_t>(bytes), 4 * kParallelElements, [&](int64_t begin, int64_t end) {
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                    static_cast<size_t>(end - begin));
      });
}

inline void parallel_zero(void* to, size_t bytes) {
  parallel_ranges(
      static_cast<int64_t>(bytes), 4 * kParallelElements, [&](int64_t begin, int64_t end) {
        std::memset(static_cast<char*>(to) + begin, 0, static_cast<size_t>(end - begin));
      });
}

/// Copies elements of `size` bytes between two strided boxes: operand 0 is written, 1 is read.
void copy_box(const StridedLoop<2>& loop, size_t size, void* to, const void* from);

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_COPY_H_
