#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/binary_loops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

using DB = hn::Rebind<uint8_t, DF>;
using DU = hn::Rebind<uint32_t, DF>;

struct Bounds {
  VF lo, hi;
};

#define TRAINRT_BINARY(NAME, EXPR)                                 \
  struct NAME {                                                    \
    static HWY_INLINE VF apply([[maybe_unused]] DF d, VF a, VF b,  \
                               [[maybe_unused]] const Bounds& c) { \
      return EXPR;                                                 \
    }                                                              \
  }
#define TRAINRT_COMPARE(NAME, EXPR)                         \
  struct NAME {                                             \
    static HWY_INLINE MF apply(VF a, VF b) { return EXPR; } \
  }

TRAINRT_BINARY(AddLoop, hn::Add(a, b));
TRAINRT_BINARY(SubLoop, hn::Sub(a, b));
TRAINRT_BINARY(MulLoop, hn::Mul(a, b));
TRAINRT_BINARY(DivLoop, hn::Div(a, b));
TRAINRT_BINARY(ChainMulLoop, hn::IfThenElse(hn::Eq(a, hn::Zero(d)), a, hn::Mul(a, b)));
TRAINRT_BINARY(ChainDivLoop, hn::IfThenElse(hn::Eq(a, hn::Zero(d)), a, hn::Div(a, b)));
TRAINRT_BINARY(MaxLoop, vmax(a, b));
TRAINRT_BINARY(MinLoop, vmin(a, b));
TRAINRT_BINARY(ReluGradLoop, hn::IfThenElseZero(hn::Gt(b, hn::Zero(d)), a));
TRAINRT_BINARY(ClipGradLoop, hn::IfThenElseZero(hn::And(hn::Ge(b, c.lo), hn::Le(b, c.hi)), a));
TRAINRT_COMPARE(EqualLoop, hn::Eq(a, b));
TRAINRT_COMPARE(LessLoop, hn::Lt(a, b));
TRAINRT_COMPARE(LessEqualLoop, hn::Le(a, b));
TRAINRT_COMPARE(GreaterLoop, hn::Gt(a, b));
TRAINRT_COMPARE(GreaterEqualLoop, hn::Ge(a, b));
#undef TRAINRT_BINARY
#undef TRAINRT_COMPARE

constexpr bool moves_a(Operands m) { return m != Operands::kSecond; }
constexpr bool moves_b(Operands m) { return m != Operands::kFirst; }

template <typename F, Operands M>
void loop(const float* pa, const float* pb, float* out, int64_t count, float lo, float hi) {
  const DF d;
  const Bounds bounds{hn::Set(d, lo), hn::Set(d, hi)};
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  if (n == 0) return;
  VF a = hn::Set(d, *pa), b = hn::Set(d, *pb);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr (moves_a(M)) a = hn::LoadU(d, pa + i);
    if constexpr (moves_b(M)) b = hn::LoadU(d, pb + i);
    hn::StoreU(F::apply(d, a, b, bounds), d, out + i);
  }
  if (i < n) {
    if constexpr (moves_a(M)) a = load_tail(d, pa + i, n - i);
    if constexpr (moves_b(M)) b = load_tail(d, pb + i, n - i);
    hn::StoreN(F::apply(d, a, b, bounds), d, out + i, n - i);
  }
}

template <typename F, Operands M>
void compare(const float* pa, const float* pb, uint8_t* out, int64_t count) {
  const DF d;
  const DB db;
  const DU du;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  if (n == 0) return;
  VF a = hn::Set(d, *pa), b = hn::Set(d, *pb);
  const auto one = hn::Set(du, 1u);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr (moves_a(M)) a = hn::LoadU(d, pa + i);
    if constexpr (moves_b(M)) b = hn::LoadU(d, pb + i);
    const auto bits = hn::IfThenElseZero(hn::RebindMask(du, F::apply(a, b)), one);
    hn::StoreU(hn::DemoteTo(db, bits), db, out + i);
  }
  if (i < n) {
    if constexpr (moves_a(M)) a = load_tail(d, pa + i, n - i);
    if constexpr (moves_b(M)) b = load_tail(d, pb + i, n - i);
    const auto bits = hn::IfThenElseZero(hn::RebindMask(du, F::apply(a, b)), one);
    hn::StoreN(hn::DemoteTo(db, bits), db, out + i, n - i);
  }
}

template <bool MoveA, bool MoveB>
void choose(const uint8_t* pc, const float* pa, const float* pb, float* out, int64_t count) {
  const DF d;
  const DB db;
  const DU du;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  if (n == 0) return;
  VF a = hn::Set(d, *pa), b = hn::Set(d, *pb);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr (MoveA) a = hn::LoadU(d, pa + i);
    if constexpr (MoveB) b = hn::LoadU(d, pb + i);
    const auto c = hn::PromoteTo(du, hn::LoadU(db, pc + i));
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, hn::Ne(c, hn::Zero(du))), a, b), d, out + i);
  }
  if (i < n) {
    if constexpr (MoveA) a = load_tail(d, pa + i, n - i);
    if constexpr (MoveB) b = load_tail(d, pb + i, n - i);
    const auto c = hn::PromoteTo(du, hn::LoadN(db, pc + i, n - i));
    hn::StoreN(hn::IfThenElse(hn::RebindMask(d, hn::Ne(c, hn::Zero(du))), a, b), d, out + i, n - i);
  }
}

float scalar_fmod(float a, float b) { return std::fmod(a, b); }
/// Sign of the divisor.
float scalar_mod(float a, float b) {
  const float r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

template <float (*F)(float, float), Operands M>
void scalar_loop(const float* a, const float* b, float* out, int64_t n, float, float) {
  for (int64_t i = 0; i < n; ++i) out[i] = F(moves_a(M) ? a[i] : *a, moves_b(M) ? b[i] : *b);
}

/// a^b = e^(b log a) in double precision; lanes where that formula fails go through the library.
HWY_INLINE VF pow_lanes(DF d, VF a, VF b) {
  const hn::Repartition<double, DF> dd;
  const hn::Half<DF> dh;
  const auto part = [&](auto x, auto y) HWY_ATTR {
    const auto limit = hn::Set(dd, 200.0);
    const auto e = hn::Mul(hn::PromoteTo(dd, y), hn::Log(dd, hn::PromoteTo(dd, x)));
    return hn::DemoteTo(dh, hn::Exp(dd, hn::Max(hn::Min(e, limit), hn::Neg(limit))));
  };
  const VF y = hn::Combine(d, part(hn::UpperHalf(dh, a), hn::UpperHalf(dh, b)),
                           part(hn::LowerHalf(dh, a), hn::LowerHalf(dh, b)));
  const VF tiny = hn::Set(d, std::numeric_limits<float>::min());
  const VF huge = hn::Set(d, std::numeric_limits<float>::max());
  const MF safe = hn::And(hn::And(hn::Ge(a, tiny), hn::Le(a, huge)), hn::Le(hn::Abs(b), huge));
  if (HWY_LIKELY(hn::AllTrue(d, safe))) return y;
  // Lane by lane, so that a result does not depend on its neighbours.
  HWY_ALIGN float as[HWY_MAX_LANES_D(DF)], bs[HWY_MAX_LANES_D(DF)], ys[HWY_MAX_LANES_D(DF)],
      ok[HWY_MAX_LANES_D(DF)];
  hn::Store(a, d, as);
  hn::Store(b, d, bs);
  hn::Store(y, d, ys);
  hn::Store(hn::IfThenElseZero(safe, hn::Set(d, 1.0f)), d, ok);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (ok[i] == 0.0f) ys[i] = std::pow(as[i], bs[i]);
  }
  return hn::Load(d, ys);
}

template <Operands M>
void pow_loop(const float* pa, const float* pb, float* out, int64_t count, float, float) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  if (n == 0) return;
  const auto each = [&](auto f) HWY_ATTR {
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, pa + i)), d, out + i);
    if (i < n) {
      hn::StoreN(f(hn::LoadNOr(hn::Set(d, 1.0f), d, pa + i, n - i)), d, out + i, n - i);
    }
  };
  if constexpr (M == Operands::kFirst) {
    const float e = *pb;
    if (e == 2.0f) return each([](VF x) HWY_ATTR { return hn::Mul(x, x); });
    if (e == 3.0f) return each([](VF x) HWY_ATTR { return hn::Mul(hn::Mul(x, x), x); });
    if (e == 0.5f) {  // -inf^0.5 is inf, but sqrt(-inf) is NaN
      return each([d](VF x) HWY_ATTR {
        return hn::IfThenElse(hn::Eq(x, hn::Inf(d)), x,
                              hn::IfThenElse(hn::Eq(x, hn::Neg(hn::Inf(d))), hn::Inf(d),
                                             hn::Sqrt(hn::Add(x, hn::Zero(d)))));
      });
    }
  }
  VF a = hn::Set(d, *pa), b = hn::Set(d, *pb);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr (moves_a(M)) a = hn::LoadU(d, pa + i);
    if constexpr (moves_b(M)) b = hn::LoadU(d, pb + i);
    hn::StoreU(pow_lanes(d, a, b), d, out + i);
  }
  if (i < n) {
    const VF one = hn::Set(d, 1.0f);
    if constexpr (moves_a(M)) a = hn::LoadNOr(one, d, pa + i, n - i);
    if constexpr (moves_b(M)) b = hn::LoadNOr(one, d, pb + i, n - i);
    hn::StoreN(pow_lanes(d, a, b), d, out + i, n - i);
  }
}

template <Operands M>
BinaryLoop find(Op op) {
  switch (op) {
    case Op::kAdd:
      return loop<AddLoop, M>;
    case Op::kSub:
      return loop<SubLoop, M>;
    case Op::kMul:
      return loop<MulLoop, M>;
    case Op::kDiv:
      return loop<DivLoop, M>;
    case Op::kChainMul:
      return loop<ChainMulLoop, M>;
    case Op::kChainDiv:
      return loop<ChainDivLoop, M>;
    case Op::kMax:
      return loop<MaxLoop, M>;
    case Op::kMin:
      return loop<MinLoop, M>;
    case Op::kReluGrad:
      return loop<ReluGradLoop, M>;
    case Op::kClipGrad:
      return loop<ClipGradLoop, M>;
    case Op::kPow:
      return pow_loop<M>;
    case Op::kMod:
      return scalar_loop<scalar_mod, M>;
    case Op::kFmod:
      return scalar_loop<scalar_fmod, M>;
    default:
      return nullptr;
  }
}

template <Operands M>
CompareLoop find_comparison(Op op) {
  switch (op) {
    case Op::kEqual:
      return compare<EqualLoop, M>;
    case Op::kLess:
      return compare<LessLoop, M>;
    case Op::kLessEqual:
      return compare<LessEqualLoop, M>;
    case Op::kGreater:
      return compare<GreaterLoop, M>;
    case Op::kGreaterEqual:
      return compare<GreaterEqualLoop, M>;
    default:
      return nullptr;
  }
}

}  // namespace

BinaryLoop find_binary(Op op, Operands m) {
  return m == Operands::kBoth    ? find<Operands::kBoth>(op)
         : m == Operands::kFirst ? find<Operands::kFirst>(op)
                                 : find<Operands::kSecond>(op);
}

CompareLoop find_compare(Op op, Operands m) {
  return m == Operands::kBoth    ? find_comparison<Operands::kBoth>(op)
         : m == Operands::kFirst ? find_comparison<Operands::kFirst>(op)
                                 : find_comparison<Operands::kSecond>(op);
}

WhereLoop find_where(bool a, bool b) {
  if (a) return b ? choose<true, true> : choose<true, false>;
  return b ? choose<false, true> : choose<false, false>;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(find_binary);
HWY_EXPORT(find_compare);
HWY_EXPORT(find_where);

BinaryLoop binary_loop(Op op, Operands operands) {
  return HWY_DYNAMIC_DISPATCH(find_binary)(op, operands);
}

CompareLoop compare_loop(Op op, Operands operands) {
  return HWY_DYNAMIC_DISPATCH(find_compare)(op, operands);
}

WhereLoop where_loop(bool first_moves, bool second_moves) {
  return HWY_DYNAMIC_DISPATCH(find_where)(first_moves, second_moves);
}

}  // namespace trainrt
#endif
