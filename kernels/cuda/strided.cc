#include "kernels/cuda/strided.h"

namespace trainrt::cuda {

Strides row_major(const Shape& shape) {
  Strides strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

Strides broadcast(const Shape& from, const Shape& to) {
  const Strides own = row_major(from);
  Strides strides(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) strides[lead + d] = from[d] == 1 ? 0 : own[d];
  return strides;
}

Divisor divisor(int64_t size) {
  if (size <= 0 || is_far(size)) return {1, 0, 0};
  const auto by = static_cast<uint64_t>(size);
  uint32_t shift = 0;
  while ((uint64_t{1} << shift) < by) ++shift;
  const uint64_t multiplier = (uint64_t{1} << 32) * ((uint64_t{1} << shift) - by) / by + 1;
  return {static_cast<uint32_t>(by), static_cast<uint32_t>(multiplier), shift};
}

const gpu::Function* function_by_size(const Scratch& scratch, std::string_view name,
                                      int64_t element_bytes, bool far) {
  return function(scratch,
                  std::string(name) + (far ? "_far_b" : "_b") + std::to_string(element_bytes));
}

}  // namespace trainrt::cuda
