#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/unary_loops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

struct Bounds {
  VF lo, hi;
};

// One struct per op; lanes beyond the end of a row hold 1.
#define TRAINRT_UNARY(NAME, EXPR)                                                               \
  struct NAME {                                                                                 \
    static HWY_INLINE VF apply([[maybe_unused]] DF d, VF x, [[maybe_unused]] const Bounds& b) { \
      return EXPR;                                                                              \
    }                                                                                           \
  }

TRAINRT_UNARY(NegLoop, hn::Neg(x));
TRAINRT_UNARY(AbsLoop, hn::Abs(x));
TRAINRT_UNARY(SignLoop,
              hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f),
                             hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, -1.0f), x)));
TRAINRT_UNARY(ExpLoop, vexp(d, x));
TRAINRT_UNARY(LogLoop, vlog(d, x));
TRAINRT_UNARY(SqrtLoop, hn::Sqrt(x));
TRAINRT_UNARY(ReciprocalLoop, hn::Div(hn::Set(d, 1.0f), x));
TRAINRT_UNARY(SinLoop, vsin(d, x));
TRAINRT_UNARY(CosLoop, vcos(d, x));
TRAINRT_UNARY(TanLoop, vtan(d, x));
TRAINRT_UNARY(AsinLoop, vasin(d, x));
TRAINRT_UNARY(AcosLoop, vacos(d, x));
TRAINRT_UNARY(AtanLoop, vatan(d, x));
TRAINRT_UNARY(SinhLoop, vsinh(d, x));
TRAINRT_UNARY(CoshLoop, vcosh(d, x));
TRAINRT_UNARY(AsinhLoop, vasinh(d, x));
TRAINRT_UNARY(AcoshLoop, vacosh(d, x));
TRAINRT_UNARY(AtanhLoop, vatanh(d, x));
TRAINRT_UNARY(TanhLoop, vtanh(d, x));
TRAINRT_UNARY(SigmoidLoop, vsigmoid(d, x));
TRAINRT_UNARY(SoftplusLoop, vsoftplus(d, x));
TRAINRT_UNARY(ErfLoop, verf(d, x));
TRAINRT_UNARY(ReluLoop, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x));
TRAINRT_UNARY(FloorLoop, hn::Floor(x));
TRAINRT_UNARY(CeilLoop, hn::Ceil(x));
TRAINRT_UNARY(RoundLoop, hn::Round(x));
TRAINRT_UNARY(ClipLoop, hn::IfThenElse(hn::Gt(hn::IfThenElse(hn::Lt(x, b.lo), b.lo, x), b.hi), b.hi,
                                       hn::IfThenElse(hn::Lt(x, b.lo), b.lo, x)));
#undef TRAINRT_UNARY

template <typename F>
void loop(const float* in, float* out, int64_t count, float lo, float hi) {
  const DF d;
  const Bounds bounds{hn::Set(d, lo), hn::Set(d, hi)};
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(F::apply(d, hn::LoadU(d, in + i), bounds), d, out + i);
  }
  if (i < n) {
    const VF x = hn::LoadNOr(hn::Set(d, 1.0f), d, in + i, n - i);
    hn::StoreN(F::apply(d, x, bounds), d, out + i, n - i);
  }
}

UnaryLoop find(Op op) {
  switch (op) {
    case Op::kNeg:
      return loop<NegLoop>;
    case Op::kAbs:
      return loop<AbsLoop>;
    case Op::kSign:
      return loop<SignLoop>;
    case Op::kExp:
      return loop<ExpLoop>;
    case Op::kLog:
      return loop<LogLoop>;
    case Op::kSqrt:
      return loop<SqrtLoop>;
    case Op::kReciprocal:
      return loop<ReciprocalLoop>;
    case Op::kSin:
      return loop<SinLoop>;
    case Op::kCos:
      return loop<CosLoop>;
    case Op::kTan:
      return loop<TanLoop>;
    case Op::kAsin:
      return loop<AsinLoop>;
    case Op::kAcos:
      return loop<AcosLoop>;
    case Op::kAtan:
      return loop<AtanLoop>;
    case Op::kSinh:
      return loop<SinhLoop>;
    case Op::kCosh:
      return loop<CoshLoop>;
    case Op::kAsinh:
      return loop<AsinhLoop>;
    case Op::kAcosh:
      return loop<AcoshLoop>;
    case Op::kAtanh:
      return loop<AtanhLoop>;
    case Op::kTanh:
      return loop<TanhLoop>;
    case Op::kSigmoid:
      return loop<SigmoidLoop>;
    case Op::kSoftplus:
      return loop<SoftplusLoop>;
    case Op::kErf:
      return loop<ErfLoop>;
    case Op::kRelu:
      return loop<ReluLoop>;
    case Op::kFloor:
      return loop<FloorLoop>;
    case Op::kCeil:
      return loop<CeilLoop>;
    case Op::kRound:
      return loop<RoundLoop>;
    case Op::kClip:
      return loop<ClipLoop>;
    default:
      return nullptr;
  }
}

}  // namespace

UnaryLoop find_unary(Op op) { return find(op); }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(find_unary);

UnaryLoop unary_loop(Op op) { return HWY_DYNAMIC_DISPATCH(find_unary)(op); }

}  // namespace trainrt
#endif
