#include "kernels/reference/common.h"

namespace trainrt::reference {

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::vector<int64_t> broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to) {
  const std::vector<int64_t> own = row_major_strides(from);
  std::vector<int64_t> strides(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    strides[lead + d] = from[d] == 1 ? 0 : own[d];
  }
  return strides;
}

StridedLoop::StridedLoop(std::span<const int64_t> shape,
                         std::vector<std::vector<int64_t>> strides) {
  TRAINRT_CHECK(strides.size() <= kMaxOperands, "a strided loop over too many operands");
  strides_.resize(strides.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool merge = !dims_.empty();
    for (size_t k = 0; merge && k < strides.size(); ++k) {
      merge = strides_[k].back() == strides[k][d] * shape[d];
    }
    if (merge) {
      dims_.back() *= shape[d];
    } else {
      dims_.push_back(shape[d]);
    }
    for (size_t k = 0; k < strides.size(); ++k) {
      if (merge) strides_[k].pop_back();
      strides_[k].push_back(strides[k][d]);
    }
  }
  if (dims_.empty()) return;
  width_ = dims_.back();
  dims_.pop_back();
  for (size_t k = 0; k < strides.size(); ++k) {
    steps_[k] = strides_[k].back();
    strides_[k].pop_back();
  }
  for (int64_t dim : dims_) rows_ *= dim;
}

StridedLoop::Offsets StridedLoop::offsets(int64_t row, int64_t column) const {
  Offsets at{};
  for (size_t d = dims_.size(); d-- > 0;) {
    const int64_t i = row % dims_[d];
    row /= dims_[d];
    for (size_t k = 0; k < strides_.size(); ++k) at[k] += i * strides_[k][d];
  }
  for (size_t k = 0; k < strides_.size(); ++k) at[k] += column * steps_[k];
  return at;
}

int64_t StridedLoop::offset(size_t operand, int64_t index) const {
  return offsets(index / width_, index % width_)[operand];
}

AxisView::AxisView(std::span<const int64_t> shape, int64_t axis) {
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    const int64_t dim = shape[static_cast<size_t>(d)];
    (d < axis ? outer : d == axis ? size : inner) *= dim;
  }
}

void throw_type(DType type) {
  throw Error(ErrorCode::kInternal,
              "the reference kernels do not compute in " + std::string(dtype_name(type)));
}

Support takes_floats(const NodeView& node) {
  const DType type = node.outputs[0].dtype;
  if (type == DType::kFloat32 || type == DType::kFloat64) return Support::yes();
  return Support::no("takes float32 and float64, not " + std::string(dtype_name(type)));
}

Support takes_numbers(const NodeView& node) {
  for (std::span<const TensorType> types : {node.inputs, node.outputs}) {
    for (const TensorType& type : types) {
      if (type.dtype == DType::kFloat16 || type.dtype == DType::kBFloat16) {
        return Support::no("does not compute in " + std::string(dtype_name(type.dtype)));
      }
    }
  }
  return Support::yes();
}

Indices::Indices(DType type) : wide_(type == DType::kInt64) {
  if (!wide_ && type != DType::kInt32) throw_type(type);
}

void throw_index(std::string_view op, int64_t index, int64_t size) {
  std::string text = std::string(op) + ": index " + std::to_string(index) + " is outside ";
  text += size == 0 ? std::string("an axis of size 0, where nothing can be taken")
                    : "[" + std::to_string(-size) + ", " + std::to_string(size - 1) + "]";
  throw Error(ErrorCode::kRuntime, text + " (axis size " + std::to_string(size) + ")");
}

}  // namespace trainrt::reference
