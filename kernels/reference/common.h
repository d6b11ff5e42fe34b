// What the reference kernels share: strided loops, dispatch on element types, checked indices.
#ifndef TRAINRT_KERNELS_REFERENCE_COMMON_H_
#define TRAINRT_KERNELS_REFERENCE_COMMON_H_

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/kernel.h"
#include "trainrt/error.h"

namespace trainrt::reference {

/// Loops over fewer elements stay on one thread.
inline constexpr int64_t kParallel = 32768;
/// Accumulators that a kernel keeps on its stack.
inline constexpr int64_t kBlock = 64;

inline int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);
/// Strides with which a tensor of shape `from` is read in the order of shape `to`.
std::vector<int64_t> broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to);

/// Walks a shape with several operands, each with strides of its own, as rows of evenly spaced
/// elements. Adjacent dims that all operands walk evenly are merged first.
class StridedLoop {
 public:
  static constexpr size_t kMaxOperands = 4;
  using Offsets = std::array<int64_t, kMaxOperands>;

  StridedLoop(std::span<const int64_t> shape, std::vector<std::vector<int64_t>> strides);

  int64_t size() const { return rows_ * width_; }
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  /// Distance of neighbours in a row.
  int64_t step(size_t operand) const { return steps_[operand]; }
  /// Offsets of element `column` of a row.
  Offsets offsets(int64_t row, int64_t column) const;
  /// Offset of the element with row-major number `index`.
  int64_t offset(size_t operand, int64_t index) const;

 private:
  std::vector<int64_t> dims_;                  // outer dims after merging
  std::vector<std::vector<int64_t>> strides_;  // per operand, of the outer dims
  Offsets steps_{};
  int64_t rows_ = 1, width_ = 1;
};

/// Calls f(offsets, count) for pieces of rows, in parallel when there is much to do.
template <typename F>
void for_each_run(const StridedLoop& loop, F&& f) {
  constexpr int64_t kPiece = 4096;
  const int64_t pieces = div_up(loop.width(), kPiece), tasks = loop.rows() * pieces;
#pragma omp parallel for schedule(static) if (loop.size() > kParallel)
  for (int64_t t = 0; t < tasks; ++t) {
    const int64_t begin = t % pieces * kPiece;
    f(loop.offsets(t / pieces, begin), std::min(kPiece, loop.width() - begin));
  }
}

/// A tensor seen along one axis: element (o, i, j) lies at (o * size + i) * inner + j.
struct AxisView {
  int64_t outer = 1, size = 1, inner = 1;

  AxisView(std::span<const int64_t> shape, int64_t axis);
  int64_t at(int64_t o, int64_t i, int64_t j) const { return (o * size + i) * inner + j; }
  int64_t count() const { return outer * size * inner; }
};

inline void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes != 0 && to != from) std::memmove(to, from, bytes);
}
inline void zero_bytes(void* to, size_t bytes) {
  if (bytes != 0) std::memset(to, 0, bytes);
}

// Element types. Bools are computed as uint8_t, so that stray bytes are harmless.
template <typename T>
using Number = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
/// Type in which sums and products are accumulated: double, or integers that wrap around.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  return false;
}
template <typename T>
constexpr T lowest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}
template <typename T>
constexpr T highest() {
  using Limits = std::numeric_limits<T>;
  return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

/// Floats become the nearest integer towards zero within To's range, NaN becomes 0; integers wrap.
template <typename To, typename From>
To convert(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (x != x) return 0;
    // Both bounds are powers of two (or 0), hence exact in From.
    const From below = static_cast<From>(std::numeric_limits<To>::min());
    const From above = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    if (x <= below) return std::numeric_limits<To>::min();
    if (x >= above) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename Plan>
using Run = void (*)(const Plan&, const KernelArgs&);

/// A kernel that calls run(plan, args).
template <typename Plan>
std::unique_ptr<Kernel> bind(Plan plan, Run<Plan> run) {
  return make_kernel([plan = std::move(plan), run](const KernelArgs& args) { run(plan, args); });
}

[[noreturn]] void throw_type(DType type);

/// bind() with run = pick<T>(), T being the float type that `type` names.
template <typename Plan, typename Pick>
std::unique_ptr<Kernel> bind_float(DType type, Plan plan, Pick pick) {
  Run<Plan> run = nullptr;
  with_float_type(type, [&](auto v) { run = pick.template operator()<decltype(v)>(); });
  if (run == nullptr) throw_type(type);
  return bind(std::move(plan), run);
}

/// As bind_float, for all floats, integers and bool.
template <typename Plan, typename Pick>
std::unique_ptr<Kernel> bind_number(DType type, Plan plan, Pick pick) {
  Run<Plan> run = nullptr;
  with_type(type, [&](auto v) { run = pick.template operator()<Number<decltype(v)>>(); });
  if (run == nullptr) throw_type(type);
  return bind(std::move(plan), run);
}

/// As bind_float, with an unsigned integer of the element's size.
template <typename Plan, typename Pick>
std::unique_ptr<Kernel> bind_size(DType type, Plan plan, Pick pick) {
  switch (dtype_size(type)) {
    case 1:
      return bind(std::move(plan), Run<Plan>(pick.template operator()<uint8_t>()));
    case 2:
      return bind(std::move(plan), Run<Plan>(pick.template operator()<uint16_t>()));
    case 4:
      return bind(std::move(plan), Run<Plan>(pick.template operator()<uint32_t>()));
    default:
      return bind(std::move(plan), Run<Plan>(pick.template operator()<uint64_t>()));
  }
}

/// The first output is float32 or float64.
Support takes_floats(const NodeView& node);
/// No operand is float16 or bfloat16.
Support takes_numbers(const NodeView& node);

/// Element i of an int32 or int64 tensor.
class Indices {
 public:
  explicit Indices(DType type);
  int64_t read(const void* data, int64_t i) const {
    return wide_ ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }

 private:
  bool wide_;
};

[[noreturn]] void throw_index(std::string_view op, int64_t index, int64_t size);

/// The index counted from the front; throws Error(kRuntime) when it is outside [-size, size - 1].
inline int64_t checked_index(std::string_view op, int64_t index, int64_t size) {
  if (index < -size || index >= size) throw_index(op, index, size);
  return index < 0 ? index + size : index;
}

// The rows, by family.
std::span<const KernelRow> reference_source_kernels();
std::span<const KernelRow> reference_unary_kernels();
std::span<const KernelRow> reference_cast_kernels();
std::span<const KernelRow> reference_binary_kernels();
std::span<const KernelRow> reference_fused_kernels();
std::span<const KernelRow> reference_shape_kernels();
std::span<const KernelRow> reference_pad_kernels();
std::span<const KernelRow> reference_indexing_kernels();
std::span<const KernelRow> reference_reduction_kernels();
std::span<const KernelRow> reference_scan_kernels();
std::span<const KernelRow> reference_matmul_kernels();
std::span<const KernelRow> reference_determinant_kernels();
std::span<const KernelRow> reference_conv_kernels();
std::span<const KernelRow> reference_pool_kernels();
std::span<const KernelRow> reference_interpolate_kernels();
std::span<const KernelRow> reference_roi_kernels();
std::span<const KernelRow> reference_softmax_kernels();
std::span<const KernelRow> reference_norm_kernels();
std::span<const KernelRow> reference_norm_conv_kernels();
std::span<const KernelRow> reference_attention_kernels();
std::span<const KernelRow> reference_recurrent_kernels();
std::span<const KernelRow> reference_loss_kernels();
std::span<const KernelRow> reference_random_kernels();
std::span<const KernelRow> reference_call_kernels();
std::span<const KernelRow> reference_state_kernels();

}  // namespace trainrt::reference

#endif  // TRAINRT_KERNELS_REFERENCE_COMMON_H_
