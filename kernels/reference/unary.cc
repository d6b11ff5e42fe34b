#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

struct UnaryPlan {
  int64_t size;
  void (*run)(const void* x, void* y, int64_t begin, int64_t end);
};

void run_unary(const UnaryPlan& p, const KernelArgs& args) {
  constexpr int64_t kPiece = 4096;
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t begin = 0; begin < p.size; begin += kPiece) {
    p.run(args.in[0], args.out[0], begin, std::min(p.size, begin + kPiece));
  }
}

template <auto F, typename In, typename Out>
void unary_loop(const void* x, void* y, int64_t begin, int64_t end) {
  const In* in = static_cast<const In*>(x);
  Out* out = static_cast<Out*>(y);
  for (int64_t i = begin; i < end; ++i) out[i] = static_cast<Out>(F(in[i]));
}

/// y = F(x) for element types of kTypes; y has x's type unless Out says otherwise.
template <auto F, Types kTypes, typename Out = void>
std::unique_ptr<Kernel> plan_unary(const NodeView& node, Scratch&) {
  UnaryPlan plan{node.outputs[0].size(), nullptr};
  with_type(node.inputs[0].dtype, [&](auto v) {
    using T = Number<decltype(v)>;
    using R = std::conditional_t<std::is_void_v<Out>, T, Out>;
    if constexpr (takes<T>(kTypes)) plan.run = unary_loop<F, T, R>;
  });
  if (plan.run == nullptr) throw_type(node.inputs[0].dtype);
  return bind(plan, run_unary);
}

// Formulas that need more than a line.

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|)
constexpr auto kSoftplus = [](auto x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
};

// 1 / (1 + e^-x), with an argument to exp that is never positive
constexpr auto kSigmoid = []<typename T>(T x) -> T {
  const T e = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
};

constexpr auto kNeg = []<typename T>(T x) -> T {
  if constexpr (std::is_floating_point_v<T>) {
    return -x;
  } else {
    return subtract<T>(0, x);
  }
};

constexpr auto kAbs = []<typename T>(T x) -> T {
  if constexpr (std::is_floating_point_v<T>) {
    return std::abs(x);
  } else if constexpr (std::is_signed_v<T>) {
    return x < 0 ? subtract<T>(0, x) : x;
  } else {
    return x;
  }
};

constexpr auto kSign = []<typename T>(T x) -> T {
  if (is_nan(x)) return x;
  if constexpr (std::is_unsigned_v<T>) {
    return x != 0;
  } else {
    return static_cast<T>((x > 0) - (x < 0));
  }
};

constexpr auto kRelu = [](auto x) { return relu(x); };

constexpr auto kReciprocal = []<typename T>(T x) -> T { return T{1} / x; };

/// Bounds of a Clip in the element's type: the integers inside [lo, hi].
template <typename T>
struct Bounds {
  T lo, hi;

  explicit Bounds(const ClipAttrs& a)
      : lo(convert<T>(std::is_integral_v<T> ? std::ceil(a.lo) : a.lo)),
        hi(convert<T>(std::is_integral_v<T> ? std::floor(a.hi) : a.hi)) {}
};

struct ClipPlan {
  int64_t size;
  ClipAttrs attrs;
};

// min(max(x, lo), hi); NaN stays NaN
template <typename T>
void clip(const ClipPlan& p, const KernelArgs& args) {
  const Bounds<T> bounds(p.attrs);
  const T* x = args.input<T>(0);
  T* y = args.output<T>(0);
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t i = 0; i < p.size; ++i) {
    const T low = x[i] < bounds.lo ? bounds.lo : x[i];
    y[i] = low > bounds.hi ? bounds.hi : low;
  }
}

template <typename T>
void clip_grad(const ClipPlan& p, const KernelArgs& args) {
  const Bounds<T> bounds(p.attrs);
  const T* dy = args.input<T>(0);
  const T* x = args.input<T>(1);
  T* dx = args.output<T>(0);
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t i = 0; i < p.size; ++i) {
    dx[i] = bounds.lo <= x[i] && x[i] <= bounds.hi ? dy[i] : T{0};
  }
}

std::unique_ptr<Kernel> plan_clip(const NodeView& node, Scratch&) {
  return bind_number(node.outputs[0].dtype,
                     ClipPlan{node.outputs[0].size(), node.attr<ClipAttrs>()},
                     []<typename T>() { return clip<T>; });
}

std::unique_ptr<Kernel> plan_clip_grad(const NodeView& node, Scratch&) {
  return bind_number(node.outputs[0].dtype,
                     ClipPlan{node.outputs[0].size(), node.attr<ClipAttrs>()},
                     []<typename T>() { return clip_grad<T>; });
}

struct RoundToPlan {
  int64_t size;
  RoundToAttrs attrs;
};

double rounded(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestUp:
      return std::round(x);
    case Rounding::kUp:
      return x < 0 ? std::floor(x) : std::ceil(x);
    case Rounding::kDown:
      return std::trunc(x);
    case Rounding::kNearestEven:
      break;
  }
  return std::nearbyint(x);
}

double beyond(const RoundToAttrs& a, double x) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (a.overflow == Overflow::kNan) return std::numeric_limits<double>::quiet_NaN();
  return std::copysign(a.overflow == Overflow::kInfinity ? kInf : a.max, x);
}

// x in units of the grid's spacing around it, rounded; powers of two keep that exact.
double on_grid(const RoundToAttrs& a, double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return beyond(a, x);
  const int least = static_cast<int>(a.min_exponent);
  const int exponent = x == 0 ? least : std::max(std::ilogb(x), least);
  const int unit = exponent - static_cast<int>(a.mantissa);
  const double y = std::ldexp(rounded(std::ldexp(x, -unit), a.rounding), unit);
  return std::abs(y) > a.max ? beyond(a, y) : y;
}

template <typename T>
void round_to(const RoundToPlan& p, const KernelArgs& args) {
  const T* x = args.input<T>(0);
  T* y = args.output<T>(0);
#pragma omp parallel for schedule(static) if (p.size > kParallel)
  for (int64_t i = 0; i < p.size; ++i) {
    y[i] = static_cast<T>(on_grid(p.attrs, static_cast<double>(x[i])));
  }
}

std::unique_ptr<Kernel> plan_round_to(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype,
                    RoundToPlan{node.outputs[0].size(), node.attr<RoundToAttrs>()},
                    []<typename T>() { return round_to<T>; });
}

/// A row for a formula on floats.
template <auto F>
constexpr KernelRow on_floats(Op op) {
  return {op, "reference", takes_floats, plan_unary<F, Types::kFloats>, true};
}
/// A row for a formula on all numbers.
template <auto F>
constexpr KernelRow on_numbers(Op op) {
  return {op, "reference", takes_numbers, plan_unary<F, Types::kNumbers>, true};
}

constexpr KernelRow kRows[] = {
    on_numbers<kNeg>(Op::kNeg),
    on_numbers<kAbs>(Op::kAbs),
    on_numbers<kSign>(Op::kSign),
    on_numbers<kRelu>(Op::kRelu),
    on_floats<[](auto x) { return std::exp(x); }>(Op::kExp),
    on_floats<[](auto x) { return std::log(x); }>(Op::kLog),
    on_floats<[](auto x) { return std::sqrt(x); }>(Op::kSqrt),
    on_floats<kReciprocal>(Op::kReciprocal),
    on_floats<[](auto x) { return std::sin(x); }>(Op::kSin),
    on_floats<[](auto x) { return std::cos(x); }>(Op::kCos),
    on_floats<[](auto x) { return std::tan(x); }>(Op::kTan),
    on_floats<[](auto x) { return std::asin(x); }>(Op::kAsin),
    on_floats<[](auto x) { return std::acos(x); }>(Op::kAcos),
    on_floats<[](auto x) { return std::atan(x); }>(Op::kAtan),
    on_floats<[](auto x) { return std::sinh(x); }>(Op::kSinh),
    on_floats<[](auto x) { return std::cosh(x); }>(Op::kCosh),
    on_floats<[](auto x) { return std::asinh(x); }>(Op::kAsinh),
    on_floats<[](auto x) { return std::acosh(x); }>(Op::kAcosh),
    on_floats<[](auto x) { return std::atanh(x); }>(Op::kAtanh),
    on_floats<[](auto x) { return std::tanh(x); }>(Op::kTanh),
    on_floats<kSigmoid>(Op::kSigmoid),
    on_floats<kSoftplus>(Op::kSoftplus),
    on_floats<[](auto x) { return std::erf(x); }>(Op::kErf),
    on_floats<[](auto x) { return std::floor(x); }>(Op::kFloor),
    on_floats<[](auto x) { return std::ceil(x); }>(Op::kCeil),
    on_floats<[](auto x) { return std::nearbyint(x); }>(Op::kRound),
    {Op::kNot, "reference", takes_numbers,
     plan_unary<[](auto x) { return x == 0; }, Types::kIntegers>, true},
    {Op::kBitwiseNot, "reference", takes_numbers,
     plan_unary<[](auto x) { return ~x; }, Types::kIntegers>, true},
    {Op::kIsNaN, "reference", takes_numbers,
     plan_unary<[](auto x) { return is_nan(x); }, Types::kNumbers, uint8_t>},
    {Op::kClip, "reference", takes_numbers, plan_clip, true},
    {Op::kClipGrad, "reference", takes_numbers, plan_clip_grad, true},
    {Op::kRoundTo, "reference", takes_floats, plan_round_to, true},
};

}  // namespace

std::span<const KernelRow> reference_unary_kernels() { return kRows; }

}  // namespace trainrt::reference
