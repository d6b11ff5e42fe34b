#include <numbers>

#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

struct BinaryPlan {
  StridedLoop loop;  // a, b, result
  void (*run)(const BinaryPlan&, const void* a, const void* b, void* y, StridedLoop::Offsets at,
              int64_t count);
};

void run_binary(const BinaryPlan& p, const KernelArgs& args) {
  for_each_run(p.loop, [&](const StridedLoop::Offsets& at, int64_t count) {
    p.run(p, args.in[0], args.in[1], args.out[0], at, count);
  });
}

template <auto F, typename T, typename Out>
void binary_loop(const BinaryPlan& p, const void* a, const void* b, void* y,
                 StridedLoop::Offsets at, int64_t count) {
  const T* left = static_cast<const T*>(a) + at[0];
  const T* right = static_cast<const T*>(b) + at[1];
  Out* out = static_cast<Out*>(y) + at[2];
  const int64_t step_a = p.loop.step(0), step_b = p.loop.step(1);
  if (step_a == 1 && step_b == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Out>(F(left[i], right[i]));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<Out>(F(left[i * step_a], right[i * step_b]));
    }
  }
}

StridedLoop broadcast_loop(const NodeView& node) {
  const Shape& shape = node.outputs[0].shape;
  std::vector<std::vector<int64_t>> strides;
  for (const TensorType& input : node.inputs) {
    strides.push_back(broadcast_strides(input.shape, shape));
  }
  strides.push_back(row_major_strides(shape));
  return StridedLoop(shape, std::move(strides));
}

/// y = F(a, b) for element types of kTypes; y has their type unless Out says otherwise.
template <auto F, Types kTypes, typename Out = void>
std::unique_ptr<Kernel> plan_binary(const NodeView& node, Scratch&) {
  BinaryPlan plan{broadcast_loop(node), nullptr};
  with_type(node.inputs[0].dtype, [&](auto v) {
    using T = Number<decltype(v)>;
    using R = std::conditional_t<std::is_void_v<Out>, T, Out>;
    if constexpr (takes<T>(kTypes)) plan.run = binary_loop<F, T, R>;
  });
  if (plan.run == nullptr) throw_type(node.inputs[0].dtype);
  return bind(std::move(plan), run_binary);
}

Support same_numbers(const NodeView& node) {
  if (node.inputs[0].dtype != node.inputs[1].dtype) {
    return Support::no("operands are " + std::string(dtype_name(node.inputs[0].dtype)) + " and " +
                       std::string(dtype_name(node.inputs[1].dtype)) + ": cast one of them");
  }
  return takes_numbers(node);
}

constexpr auto kDiv = []<typename T>(T a, T b) -> T {
  if constexpr (std::is_floating_point_v<T>) {
    return a / b;
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return subtract<T>(0, a);
    }
    return static_cast<T>(a / b);
  }
};

constexpr auto kChainMul = []<typename T>(T a, T b) -> T { return a == 0 ? a : multiply(a, b); };
constexpr auto kChainDiv = []<typename T>(T a, T b) -> T { return a == 0 ? a : kDiv(a, b); };

constexpr auto kPow = []<typename T>(T a, T b) -> T {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(a, b);
  } else {
    if constexpr (std::is_signed_v<T>) {
      // 1 / a^|b|, towards zero
      if (b < 0) return a == 1 ? T{1} : a == -1 ? static_cast<T>(b % 2 == 0 ? 1 : -1) : T{0};
    }
    T power = 1, base = a;
    for (; b > 0; b = static_cast<T>(b / 2)) {
      if (b % 2 != 0) power = multiply(power, base);
      base = multiply(base, base);
    }
    return power;
  }
};

constexpr auto kFmod = []<typename T>(T a, T b) -> T {
  if constexpr (std::is_floating_point_v<T>) {
    return std::fmod(a, b);
  } else {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
};

constexpr auto kMod = []<typename T>(T a, T b) -> T {
  const T r = kFmod(a, b);
  if constexpr (!std::is_unsigned_v<T>) {
    if (r != 0 && (r < 0) != (b < 0)) return add(r, b);
  }
  return r;
};

constexpr auto kShiftLeft = []<typename T>(T a, T b) -> T {
  if (b < T{0} || static_cast<uint64_t>(b) >= sizeof(T) * 8) return 0;
  return static_cast<T>(static_cast<Wrap<T>>(a) << b);
};

constexpr auto kShiftRight = []<typename T>(T a, T b) -> T {
  if (b < T{0} || static_cast<uint64_t>(b) >= sizeof(T) * 8) return 0;
  return static_cast<T>(a >> b);
};

struct WherePlan {
  StridedLoop loop;  // condition, then, else, result
};

template <typename T>
void where(const WherePlan& p, const KernelArgs& args) {
  const StridedLoop& loop = p.loop;
  for_each_run(loop, [&](const StridedLoop::Offsets& at, int64_t count) {
    const uint8_t* condition = args.input<uint8_t>(0) + at[0];
    const T* then = args.input<T>(1) + at[1];
    const T* otherwise = args.input<T>(2) + at[2];
    T* y = args.output<T>(0) + at[3];
    const int64_t c = loop.step(0), t = loop.step(1), e = loop.step(2);
    for (int64_t i = 0; i < count; ++i) {
      y[i] = condition[i * c] != 0 ? then[i * t] : otherwise[i * e];
    }
  });
}

std::unique_ptr<Kernel> plan_where(const NodeView& node, Scratch&) {
  return bind_size(node.outputs[0].dtype, WherePlan{broadcast_loop(node)},
                   []<typename T>() { return where<T>; });
}

template <auto F, Types kTypes = Types::kNumbers>
constexpr KernelRow arithmetic(Op op) {
  return {op, "reference", same_numbers, plan_binary<F, kTypes>, true};
}
template <auto F>
constexpr KernelRow bitwise(Op op) {
  return arithmetic<F, Types::kIntegers>(op);
}
/// Not in place: the result is bool, the operands need not be.
template <auto F>
constexpr KernelRow comparison(Op op) {
  return {op, "reference", same_numbers, plan_binary<F, Types::kNumbers, uint8_t>};
}

// dy (Phi(x) + x phi(x)), or the derivative of the approximation by a tanh; where nothing flows in
// nothing flows on
template <bool kTanh>
constexpr auto kGeluGrad = []<typename T>(T dy, T x) -> T {
  if (dy == 0) return dy;
  if (std::isinf(x)) return x > 0 ? dy : T{0};
  constexpr double kSlope = 0.7978845608028654;  // sqrt(2 / pi)
  const double v = x;
  if (kTanh) {
    const double t = std::tanh(kSlope * (v + 0.044715 * v * v * v));
    const double inner = kSlope * (1 + 3 * 0.044715 * v * v);
    const double slope = t * t == 1 ? 0 : 0.5 * v * (1 - t * t) * inner;
    return static_cast<T>(dy * (0.5 * (1 + t) + slope));
  }
  const double density = 0.5 * kSlope * std::exp(-0.5 * v * v);
  return static_cast<T>(dy * (0.5 * std::erfc(-v * std::numbers::sqrt2 / 2) + v * density));
};

// dy s (1 + x (1 - s)) with s = sigmoid(x)
constexpr auto kSiluGrad = []<typename T>(T dy, T x) -> T {
  if (dy == 0) return dy;
  if (std::isinf(x)) return x > 0 ? dy : T{0};
  const double v = x, e = std::exp(-std::abs(v)), s = v >= 0 ? 1 / (1 + e) : e / (1 + e);
  return static_cast<T>(dy * (s + v * e / ((1 + e) * (1 + e))));
};

std::unique_ptr<Kernel> plan_gelu_grad(const NodeView& node, Scratch& scratch) {
  return node.attr<GeluAttrs>().tanh ? plan_binary<kGeluGrad<true>, Types::kFloats>(node, scratch)
                                     : plan_binary<kGeluGrad<false>, Types::kFloats>(node, scratch);
}

constexpr KernelRow kRows[] = {
    arithmetic<[](auto a, auto b) { return add(a, b); }>(Op::kAdd),
    arithmetic<[](auto a, auto b) { return subtract(a, b); }>(Op::kSub),
    arithmetic<[](auto a, auto b) { return multiply(a, b); }>(Op::kMul),
    arithmetic<kDiv>(Op::kDiv),
    arithmetic<kChainMul>(Op::kChainMul),
    arithmetic<kChainDiv>(Op::kChainDiv),
    arithmetic<kPow>(Op::kPow),
    arithmetic<kMod>(Op::kMod),
    arithmetic<kFmod>(Op::kFmod),
    arithmetic<[](auto a, auto b) { return maximum(a, b); }>(Op::kMax),
    arithmetic<[](auto a, auto b) { return minimum(a, b); }>(Op::kMin),
    comparison<[](auto a, auto b) { return a == b; }>(Op::kEqual),
    comparison<[](auto a, auto b) { return a < b; }>(Op::kLess),
    comparison<[](auto a, auto b) { return a <= b; }>(Op::kLessEqual),
    comparison<[](auto a, auto b) { return b < a; }>(Op::kGreater),
    comparison<[](auto a, auto b) { return a >= b; }>(Op::kGreaterEqual),
    bitwise<[](auto a, auto b) { return a != 0 && b != 0; }>(Op::kAnd),
    bitwise<[](auto a, auto b) { return a != 0 || b != 0; }>(Op::kOr),
    bitwise<[](auto a, auto b) { return (a != 0) != (b != 0); }>(Op::kXor),
    bitwise<[](auto a, auto b) { return a & b; }>(Op::kBitwiseAnd),
    bitwise<[](auto a, auto b) { return a | b; }>(Op::kBitwiseOr),
    bitwise<[](auto a, auto b) { return a ^ b; }>(Op::kBitwiseXor),
    bitwise<kShiftLeft>(Op::kShiftLeft),
    bitwise<kShiftRight>(Op::kShiftRight),
    arithmetic<[](auto dy, auto y) { return 0 < y ? dy : decltype(dy){0}; }>(Op::kReluGrad),
    {Op::kGeluGrad, "reference", takes_floats, plan_gelu_grad, true},
    {Op::kSiluGrad, "reference", takes_floats, plan_binary<kSiluGrad, Types::kFloats>, true},
    {Op::kWhere, "reference", nullptr, plan_where, true},
};

}  // namespace

std::span<const KernelRow> reference_binary_kernels() { return kRows; }

}  // namespace trainrt::reference
