// Plans of strided walks for device code: merged dims, wide elements.
#ifndef TRAINRT_KERNELS_CUDA_STRIDED_H_
#define TRAINRT_KERNELS_CUDA_STRIDED_H_

#include <array>
#include <bit>
#include <initializer_list>
#include <vector>

#include "kernels/cuda/device/strided.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {

using Strides = std::vector<int64_t>;

Strides row_major(const Shape& shape);
/// Of a tensor of shape `from` read in the order of shape `to`.
Strides broadcast(const Shape& from, const Shape& to);

/// Of a size of at least 1; of larger ones than kernels divide by in 32 bits it is of no use.
Divisor divisor(int64_t size);

/// Whether kernels have to count in 64 bits.
inline bool is_far(int64_t elements) { return elements >= int64_t{1} << 31; }

/// A shape and the strides with which kOperands walk it; dims of size 1 are dropped and neighbours
/// that all operands walk evenly are one.
template <size_t kOperands>
struct Dims {
  std::vector<int64_t> sizes;
  std::array<Strides, kOperands> strides;

  Dims(const Shape& shape, const std::array<Strides, kOperands>& all) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      bool merges = !sizes.empty();
      for (size_t k = 0; merges && k < kOperands; ++k) {
        merges = strides[k].back() == all[k][d] * shape[d];
      }
      if (merges) {
        sizes.back() *= shape[d];
      } else {
        sizes.push_back(shape[d]);
      }
      for (size_t k = 0; k < kOperands; ++k) {
        if (merges) strides[k].pop_back();
        strides[k].push_back(all[k][d]);
      }
    }
  }

  int64_t count() const {
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    return n;
  }

  Walk<static_cast<int>(kOperands)> walk() const {
    Walk<static_cast<int>(kOperands)> w{};
    w.rank = static_cast<int>(sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) {
      w.sizes[d] = sizes[d];
      w.divisors[d] = divisor(sizes[d]);
      for (size_t k = 0; k < kOperands; ++k) w.strides[k][d] = strides[k][d];
    }
    return w;
  }
};

/// Bytes of the widest unit, up to 16, that all these numbers of bytes are multiples of.
inline int64_t unit_of(std::initializer_list<int64_t> bytes) {
  uint64_t all = 16;
  for (int64_t b : bytes) all |= static_cast<uint64_t>(b);
  return static_cast<int64_t>(all & (~all + 1));
}

/// Makes the elements of a walk as wide as the innermost dim allows. Given and returned: bytes of
/// an element; `bases` are further distances in elements.
template <size_t kOperands>
int64_t widen(Dims<kOperands>& dims, int64_t element, std::initializer_list<int64_t*> bases) {
  if (dims.sizes.empty()) return element;
  for (const Strides& s : dims.strides) {
    if (s.back() != 1) return element;
  }
  int64_t unit = unit_of({dims.sizes.back() * element});
  for (const Strides& s : dims.strides) {
    for (size_t d = 0; d + 1 < s.size(); ++d) unit = unit_of({unit, s[d] * element});
  }
  for (const int64_t* base : bases) unit = unit_of({unit, *base * element});
  const int64_t factor = unit / element;
  dims.sizes.back() /= factor;
  for (Strides& s : dims.strides) {
    for (size_t d = 0; d + 1 < s.size(); ++d) s[d] /= factor;
  }
  for (int64_t* base : bases) *base /= factor;
  return unit;
}

/// The device function `name`_b`bytes`, or `name`_far_b`bytes`.
const gpu::Function* function_by_size(const Scratch& scratch, std::string_view name,
                                      int64_t element_bytes, bool far);

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_STRIDED_H_
