// GELU and SiLU with their gradients, in one pass each.
#include <algorithm>

#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

#ifndef TRAINRT_KERNELS_CPU_ACTIVATION_ONCE_
#define TRAINRT_KERNELS_CPU_ACTIVATION_ONCE_
namespace trainrt {

struct ActivationLoops {
  void (*forward)(const float* x, float* y, int64_t n);
  void (*backward)(const float* dy, const float* x, float* dx, int64_t n);
};

}  // namespace trainrt
#endif

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

// forward() gives y for x, derivative() dy/dx. Beyond kBound both are at their limits in float32:
// arguments are held there, and a result below -kBound is 0.

HWY_INLINE VF hold(DF d, VF x, float bound) {
  return hn::Max(hn::Min(x, hn::Set(d, bound)), hn::Set(d, -bound));
}

struct Gelu {
  static constexpr float kBound = 15.0f;

  static HWY_INLINE VF forward(DF d, VF x) {
    const VF e = verf(d, hn::Mul(x, hn::Set(d, 0.70710678f)));
    const VF half = hn::Mul(x, hn::Set(d, 0.5f));
    return hn::MulAdd(half, e, half);
  }

  // Phi(x) + x phi(x); Abramowitz and Stegun's erfc (7.1.26) shares the exponential with phi.
  static HWY_INLINE VF derivative(DF d, VF x) {
    const VF one = hn::Set(d, 1.0f), v = hold(d, x, kBound);
    const VF e = hn::Exp(d, hn::Mul(hn::Mul(v, v), hn::Set(d, -0.5f)));
    const VF t = hn::Div(one, hn::MulAdd(hn::Abs(v), hn::Set(d, 0.23164189f), one));
    VF p = hn::Set(d, 0.5307027145f);
    p = hn::MulAdd(p, t, hn::Set(d, -0.7265760135f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.7107068705f));
    p = hn::MulAdd(p, t, hn::Set(d, -0.142248368f));
    p = hn::MulAdd(p, t, hn::Set(d, 0.127414796f));
    const VF tail = hn::Mul(hn::Mul(p, t), e);
    const VF cdf = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), tail, hn::Sub(one, tail));
    return hn::MulAdd(hn::Mul(v, e), hn::Set(d, 0.39894228f), cdf);
  }
};

// x s(u) with the logistic function s and u = 2 sqrt(2 / pi) (x + 0.044715 x^3)
struct TanhGelu {
  static constexpr float kBound = 15.0f;

  static HWY_INLINE VF logistic(DF d, VF v, VF square) {
    const VF u =
        hn::Mul(v, hn::MulAdd(square, hn::Set(d, 0.0713548163f), hn::Set(d, 1.5957691216f)));
    return vsigmoid(d, u);
  }
  static HWY_INLINE VF forward(DF d, VF x) {
    const VF v = hold(d, x, kBound);
    return hn::Mul(x, logistic(d, v, hn::Mul(v, v)));
  }
  static HWY_INLINE VF derivative(DF d, VF x) {
    const VF v = hold(d, x, kBound), square = hn::Mul(v, v), s = logistic(d, v, square);
    const VF slope =
        hn::Mul(v, hn::MulAdd(square, hn::Set(d, 0.2140644488f), hn::Set(d, 1.5957691216f)));
    return hn::MulAdd(hn::Mul(s, hn::Sub(hn::Set(d, 1.0f), s)), slope, s);
  }
};

struct Silu {
  static constexpr float kBound = 104.0f;

  static HWY_INLINE VF forward(DF d, VF x) { return hn::Mul(x, vsigmoid(d, x)); }
  static HWY_INLINE VF derivative(DF d, VF x) {
    const VF v = hold(d, x, kBound), s = vsigmoid(d, v);
    return hn::MulAdd(hn::Mul(s, hn::Sub(hn::Set(d, 1.0f), s)), v, s);
  }
};

template <typename F>
HWY_INLINE VF forward_lanes(DF d, VF x) {
  const VF y = hn::IfThenElseZero(hn::Gt(x, hn::Set(d, -F::kBound)), F::forward(d, x));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

/// Where nothing flows in nothing flows on.
template <typename F>
HWY_INLINE VF backward_lanes(DF d, VF dy, VF x) {
  const VF slope = hn::IfThenElse(hn::IsNaN(x), x, F::derivative(d, x));
  return hn::IfThenElse(hn::Eq(dy, hn::Zero(d)), dy, hn::Mul(dy, slope));
}

template <typename F>
void forward(const float* x, float* y, int64_t count) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(forward_lanes<F>(d, hn::LoadU(d, x + i)), d, y + i);
  }
  if (i < n) {
    hn::StoreN(forward_lanes<F>(d, load_tail(d, x + i, n - i)), d, y + i, n - i);
  }
}

template <typename F>
void backward(const float* dy, const float* x, float* dx, int64_t count) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(backward_lanes<F>(d, hn::LoadU(d, dy + i), hn::LoadU(d, x + i)), d, dx + i);
  }
  if (i < n) {
    const VF g = load_tail(d, dy + i, n - i), v = load_tail(d, x + i, n - i);
    hn::StoreN(backward_lanes<F>(d, g, v), d, dx + i, n - i);
  }
}

}  // namespace

ActivationLoops gelu_loops() { return {forward<Gelu>, backward<Gelu>}; }
ActivationLoops tanh_gelu_loops() { return {forward<TanhGelu>, backward<TanhGelu>}; }
ActivationLoops silu_loops() { return {forward<Silu>, backward<Silu>}; }

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(gelu_loops);
HWY_EXPORT(tanh_gelu_loops);
HWY_EXPORT(silu_loops);

namespace {

template <typename F>
void for_each_piece(int64_t n, const F& f) {
  parallel_ranges(n, kParallelElements / 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBf16Piece) f(i, std::min(kBf16Piece, end - i));
  });
}

ActivationLoops loops_of(const NodeView& node) {
  if (node.op == Op::kSilu || node.op == Op::kSiluGrad) return HWY_DYNAMIC_DISPATCH(silu_loops)();
  return node.attr<GeluAttrs>().tanh ? HWY_DYNAMIC_DISPATCH(tanh_gelu_loops)()
                                     : HWY_DYNAMIC_DISPATCH(gelu_loops)();
}

std::unique_ptr<Kernel> plan_activation(const NodeView& node, Scratch&) {
  const bool half_x = is_bf16(node.inputs[0]), half_y = is_bf16(node.outputs[0]);
  return make_kernel([=, f = loops_of(node).forward,
                      n = node.outputs[0].size()](const KernelArgs& args) {
    const FloatInput x(args.in[0], half_x);
    const FloatOutput y(args.out[0], half_y);
    for_each_piece(n, [&](int64_t i, int64_t count) {
      alignas(64) float in[kBf16Piece], out[kBf16Piece];
      f(x.read(i, count, in), y.place(i, out), count);
      y.write(i, count, out);
    });
  });
}

std::unique_ptr<Kernel> plan_activation_grad(const NodeView& node, Scratch&) {
  const bool half_dy = is_bf16(node.inputs[0]), half_x = is_bf16(node.inputs[1]),
             half_dx = is_bf16(node.outputs[0]);
  return make_kernel([=, f = loops_of(node).backward,
                      n = node.outputs[0].size()](const KernelArgs& args) {
    const FloatInput dy(args.in[0], half_dy), x(args.in[1], half_x);
    const FloatOutput dx(args.out[0], half_dx);
    for_each_piece(n, [&](int64_t i, int64_t count) {
      alignas(64) float in0[kBf16Piece], in1[kBf16Piece], out[kBf16Piece];
      f(dy.read(i, count, in0), x.read(i, count, in1), dx.place(i, out), count);
      dx.write(i, count, out);
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kGelu, "cpu.activation", all_float_or_bf16, plan_activation, true, false, true},
    {Op::kSilu, "cpu.activation", all_float_or_bf16, plan_activation, true, false, true},
    {Op::kGeluGrad, "cpu.activation", all_float_or_bf16, plan_activation_grad, true, false, true},
    {Op::kSiluGrad, "cpu.activation", all_float_or_bf16, plan_activation_grad, true, false, true},
};

}  // namespace

std::span<const KernelRow> activation_rows() { return kRows; }

}  // namespace trainrt
#endif
