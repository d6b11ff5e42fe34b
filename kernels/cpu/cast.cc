// Cast between float32, int32, int64 and bool.
#include <limits>
#include <type_traits>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {
namespace {

bool known(DType t) {
  return t == DType::kFloat32 || t == DType::kInt32 || t == DType::kInt64 || t == DType::kBool;
}

Support takes_cast(const NodeView& node) {
  return known(node.inputs[0].dtype) && known(node.outputs[0].dtype)
             ? Support::yes()
             : Support::no("casts between float32, int32, int64 and bool");
}

/// Floats go towards zero and stay in range, NaN becomes 0.
template <typename To, typename From>
To convert_value(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{};
  } else if constexpr (std::is_same_v<From, float> && !std::is_same_v<To, float>) {
    constexpr float kEnd = static_cast<float>(uint64_t{1} << (8 * sizeof(To) - 1));  // max + 1
    if (x >= kEnd) return std::numeric_limits<To>::max();
    if (x < -kEnd) return std::numeric_limits<To>::min();
    return x == x ? static_cast<To>(x) : To{0};
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
std::unique_ptr<Kernel> convert(int64_t n) {
  return make_kernel([n](const KernelArgs& args) {
    const From* x = args.input<From>(0);
    To* y = args.output<To>(0);
    parallel_ranges(n, kParallelElements / 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = convert_value<To>(x[i]);
    });
  });
}

template <typename From>
std::unique_ptr<Kernel> convert_from(DType to, int64_t n) {
  switch (to) {
    case DType::kFloat32:
      return convert<From, float>(n);
    case DType::kInt32:
      return convert<From, int32_t>(n);
    case DType::kInt64:
      return convert<From, int64_t>(n);
    default:
      return convert<From, bool>(n);
  }
}

std::unique_ptr<Kernel> plan_cast(const NodeView& node, Scratch&) {
  const DType to = node.outputs[0].dtype;
  const int64_t n = node.outputs[0].size();
  switch (node.inputs[0].dtype) {
    case DType::kFloat32:
      return convert_from<float>(to, n);
    case DType::kInt32:
      return convert_from<int32_t>(to, n);
    case DType::kInt64:
      return convert_from<int64_t>(to, n);
    default:
      return convert_from<bool>(to, n);
  }
}

constexpr KernelRow kRows[] = {
    {Op::kCast, "cpu.cast", takes_cast, plan_cast, true},
};

}  // namespace

std::span<const KernelRow> cast_rows() { return kRows; }

}  // namespace trainrt
