#include "kernels/cuda/codegen_space.h"

#include <utility>

namespace trainrt::cuda {
namespace {

/// Strides with which an operand is read in the order of the space.
std::vector<int64_t> strides_in(const Shape& operand, const Shape& space) {
  std::vector<int64_t> strides(space.size(), 0);
  int64_t stride = 1;
  for (size_t d = operand.size(); d-- > 0; stride *= operand[d]) {
    if (operand[d] != 1) strides[space.size() - operand.size() + d] = stride;
  }
  return strides;
}

}  // namespace

Space::Space(const Shape& shape, const std::vector<TensorType>& operands,
             const std::vector<bool>& reduced_axes) {
  std::vector<std::vector<int64_t>> full;
  for (const TensorType& t : operands) full.push_back(strides_in(t.shape, shape));
  strides.resize(operands.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool merge = !dims.empty() && reduced.back() == reduced_axes[d];
    for (size_t k = 0; k < operands.size(); ++k) {
      merge = merge && strides[k].back() == full[k][d] * shape[d];
    }
    if (!merge) {
      dims.push_back(1);
      reduced.push_back(reduced_axes[d]);
    }
    dims.back() *= shape[d];
    for (size_t k = 0; k < operands.size(); ++k) {
      if (!merge) strides[k].push_back(0);
      strides[k].back() = full[k][d];
    }
  }
  if (!dims.empty()) return;
  dims = {1};
  reduced = {false};
  for (auto& s : strides) s = {0};
}

int64_t Space::size(bool of_reduced) const {
  int64_t size = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (reduced[d] == of_reduced) size *= dims[d];
  }
  return size;
}

IndexText::IndexText(const Space& space, bool of_reduced, std::string number, int64_t width,
                     bool wide)
    : space_(space), number_(std::move(number)), width_(width), wide_(wide) {
  for (size_t d = 0; d < space.dims.size(); ++d) {
    if (space.reduced[d] != of_reduced) continue;
    dims_.push_back(d);
    const bool inner = d + 1 == space.dims.size();
    sizes_.push_back(inner ? space.dims[d] / width : space.dims[d]);
  }
  used_.assign(dims_.size(), false);
}

std::string IndexText::constant(int64_t value) const {
  return std::to_string(value) + (wide_ ? "ull" : "u");
}

std::string IndexText::offset(size_t operand) { return offset_of(space_.strides[operand]); }

std::string IndexText::dense_offset() {
  std::vector<int64_t> strides(space_.dims.size());
  int64_t stride = 1;
  for (size_t d = strides.size(); d-- > 0; stride *= space_.dims[d]) strides[d] = stride;
  return offset_of(strides);
}

std::string IndexText::offset_of(const std::vector<int64_t>& strides) {
  // Steps of the counted dims, and whether one step of the number is the same everywhere.
  std::vector<int64_t> steps;
  bool moves = false, even = true;
  for (size_t i = 0; i < dims_.size(); ++i) {
    const bool inner = dims_[i] + 1 == space_.dims.size();
    steps.push_back(strides[dims_[i]] * (inner ? width_ : 1));
    moves = moves || (steps.back() != 0 && sizes_[i] > 1);
    if (i > 0) even = even && steps[i - 1] == steps[i] * sizes_[i];
  }
  if (!moves) return "";
  const auto term = [&](const std::string& number, int64_t step) {
    return step == 1 ? number : number + " * " + constant(step);
  };
  if (even) return term(number_, steps.back());
  std::string text;
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (steps[i] == 0) continue;
    used_[i] = true;
    text += (text.empty() ? "" : " + ") + term(number_ + std::to_string(i), steps[i]);
  }
  return text;
}

std::string IndexText::declarations(const std::string& indent) const {
  std::string text;
  int64_t behind = 1;
  for (size_t i = dims_.size(); i-- > 0; behind *= sizes_[i]) {
    if (!used_[i]) continue;
    text += indent + "const " + (wide_ ? "u64 " : "u32 ") + number_ + std::to_string(i) + " = " +
            number_;
    if (behind > 1) text += " / " + constant(behind);
    if (i > 0) text += " % " + constant(sizes_[i]);
    text += ";\n";
  }
  return text;
}

}  // namespace trainrt::cuda
