// The iteration space of a generated kernel, and indices into it as text.
#ifndef TRAINRT_KERNELS_CUDA_CODEGEN_SPACE_H_
#define TRAINRT_KERNELS_CUDA_CODEGEN_SPACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "graph/types.h"

namespace trainrt::cuda {

/// Dims of the space merged where every operand goes evenly through both and both are kept or both
/// are reduced. `strides` are of the operands, in elements.
struct Space {
  std::vector<int64_t> dims;
  std::vector<std::vector<int64_t>> strides;
  std::vector<bool> reduced;

  Space(const Shape& shape, const std::vector<TensorType>& operands,
        const std::vector<bool>& reduced_axes);

  /// Product of the dims that are reduced, or kept.
  int64_t size(bool of_reduced) const;
  bool is_inner_reduced() const { return reduced.back(); }
  /// Elements that the innermost dim can be walked by at once.
  bool goes_by(int64_t width) const { return dims.back() % width == 0; }
};

/// Offsets of operands as text, for one number that counts the kept, or the reduced, dims row by
/// row, the innermost dim in steps of `width` elements.
class IndexText {
 public:
  IndexText(const Space& space, bool of_reduced, std::string number, int64_t width, bool wide);

  /// "" when the operand does not move.
  std::string offset(size_t operand);
  /// Of the space itself, row-major.
  std::string dense_offset();
  /// Declarations that the offsets so far need, one a line.
  std::string declarations(const std::string& indent) const;

  std::string constant(int64_t value) const;

 private:
  std::string offset_of(const std::vector<int64_t>& strides);

  const Space& space_;
  std::vector<size_t> dims_;    // numbers of dims
  std::vector<int64_t> sizes_;  // as counted
  std::vector<bool> used_;
  std::string number_;
  int64_t width_;
  bool wide_;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_CODEGEN_SPACE_H_
