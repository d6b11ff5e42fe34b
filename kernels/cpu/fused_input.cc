#include "kernels/cpu/fused_input.h"

#include <cstring>
#include <type_traits>

#include "kernels/cpu/bfloat16.h"

namespace trainrt {
namespace {

void convert(const uint16_t* x, float* y, int64_t n) { from_bf16(x, y, n); }
template <typename T>
void convert(const T* x, T* y, int64_t n) {
  std::memcpy(y, x, static_cast<size_t>(n) * sizeof(T));
}

template <typename T>
void gather(const std::vector<int64_t>& dims, const FusedInput& input, const void* from,
            const FusedTile& tile, std::byte* to) {
  using To = std::conditional_t<std::is_same_v<T, uint16_t>, float, T>;
  const T* x = static_cast<const T*>(from) + tile.column * input.strides.back();
  To* y = reinterpret_cast<To*>(to);
  FusedLines lines(dims, input.strides, tile.line);
  for (int64_t r = 0; r < tile.rows; ++r, y += tile.width, lines.next()) {
    const T* row = x + lines.offset();
    if (input.strides.back() == 0) {
      To value;
      convert(row, &value, 1);
#pragma omp simd
      for (int64_t k = 0; k < tile.width; ++k) y[k] = value;
    } else {
      convert(row, y, tile.width);
    }
  }
}

}  // namespace

void copy_input(const std::vector<int64_t>& dims, const FusedInput& input, const void* from,
                const FusedTile& tile, std::byte* to) {
  if (input.bytes == 1) {
    gather<uint8_t>(dims, input, from, tile, to);
  } else if (!input.bf16()) {
    gather<float>(dims, input, from, tile, to);
  } else if (input.dense) {
    from_bf16(static_cast<const uint16_t*>(from) + tile.line * dims.back() + tile.column,
              reinterpret_cast<float*>(to), tile.rows * tile.width);
  } else {
    gather<uint16_t>(dims, input, from, tile, to);
  }
}

}  // namespace trainrt
