#include "kernels/cpu/recurrent_cells.h"

#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/recurrent_cells.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

struct Full {
  HWY_INLINE VF load(DF d, const float* p) const { return hn::LoadU(d, p); }
  HWY_INLINE void store(DF d, VF v, float* p) const { hn::StoreU(v, d, p); }
};
struct Tail {
  size_t n;
  HWY_INLINE VF load(DF d, const float* p) const { return hn::LoadN(d, p, n); }
  HWY_INLINE void store(DF d, VF v, float* p) const { hn::StoreN(v, d, p, n); }
};

template <typename F>
HWY_INLINE void each(int64_t count, const F& f) {
  const DF d;
  const auto n = static_cast<size_t>(count);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) f(Full{}, i);
  if (i < n) f(Tail{n - i}, i);
}

/// s (1 - s) v
HWY_INLINE VF through_sigmoid(DF d, VF s, VF v) {
  return hn::Mul(v, hn::Mul(s, hn::Sub(hn::Set(d, 1.0f), s)));
}
/// (1 - t^2) v
HWY_INLINE VF through_tanh(DF d, VF t, VF v) {
  return hn::Mul(v, hn::NegMulAdd(t, t, hn::Set(d, 1.0f)));
}

void lstm(const float* x, const float* product, const float* c0, float* gates, float* c, float* y,
          int64_t width, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    const auto input = [=](int64_t gate) HWY_ATTR {
      const float *a = x + gate * width + j, *b = product + gate * width + j;
      return hn::Add(r.load(d, a), r.load(d, b));
    };
    const VF i = vsigmoid(d, input(0)), o = vsigmoid(d, input(1)), f = vsigmoid(d, input(2)),
             g = vtanh(d, input(3));
    const VF cell = hn::MulAdd(f, r.load(d, c0 + j), hn::Mul(i, g));
    r.store(d, i, gates + j);
    r.store(d, o, gates + width + j);
    r.store(d, f, gates + 2 * width + j);
    r.store(d, g, gates + 3 * width + j);
    r.store(d, cell, c + j);
    r.store(d, hn::Mul(o, vtanh(d, cell)), y + j);
  });
}

void lstm_grad(const float* dy, const float* dh, const float* cell_gradient, const float* c0,
               const float* c, const float* gates, float* dx, float* dc, int64_t width, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    const VF i = r.load(d, gates + j), o = r.load(d, gates + width + j),
             f = r.load(d, gates + 2 * width + j), g = r.load(d, gates + 3 * width + j);
    const VF t = vtanh(d, r.load(d, c + j));
    const VF h = hn::Add(r.load(d, dy + j), r.load(d, dh + j));
    VF cell = hn::Add(r.load(d, dc + j), through_tanh(d, t, hn::Mul(h, o)));
    if (cell_gradient != nullptr) cell = hn::Add(cell, r.load(d, cell_gradient + j));
    r.store(d, through_sigmoid(d, i, hn::Mul(cell, g)), dx + j);
    r.store(d, through_sigmoid(d, o, hn::Mul(h, t)), dx + width + j);
    r.store(d, through_sigmoid(d, f, hn::Mul(cell, r.load(d, c0 + j))), dx + 2 * width + j);
    r.store(d, through_tanh(d, g, hn::Mul(cell, i)), dx + 3 * width + j);
    r.store(d, hn::Mul(cell, f), dc + j);
  });
}

/// (1 - z) fresh + z h
HWY_INLINE VF mixed(DF d, VF z, VF fresh, VF h) {
  return hn::MulAdd(z, h, hn::Mul(hn::Sub(hn::Set(d, 1.0f), z), fresh));
}

void gru_linear(const float* x, const float* product, const float* bias, const float* h0,
                float* gates, float* y, int64_t width, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    const auto recurrent = [=](int64_t gate) HWY_ATTR {
      const float *a = product + gate * width + j, *b = bias + gate * width + j;
      return hn::Add(r.load(d, a), r.load(d, b));
    };
    const VF z = vsigmoid(d, hn::Add(r.load(d, x + j), recurrent(0)));
    const VF reset = vsigmoid(d, hn::Add(r.load(d, x + width + j), recurrent(1)));
    const VF q = recurrent(2);
    const VF fresh = vtanh(d, hn::MulAdd(reset, q, r.load(d, x + 2 * width + j)));
    r.store(d, z, gates + j);
    r.store(d, reset, gates + width + j);
    r.store(d, fresh, gates + 2 * width + j);
    r.store(d, q, gates + 3 * width + j);
    r.store(d, mixed(d, z, fresh, r.load(d, h0 + j)), y + j);
  });
}

void gru_reset(const float* x, const float* product, const float* bias, const float* h0,
               float* gates, int64_t width, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    const auto gate = [=](int64_t k) HWY_ATTR {
      const float *a = product + k * width + j, *b = bias + k * width + j;
      const VF recurrent = hn::Add(r.load(d, a), r.load(d, b));
      return vsigmoid(d, hn::Add(r.load(d, x + k * width + j), recurrent));
    };
    const VF reset = gate(1);
    r.store(d, gate(0), gates + j);
    r.store(d, reset, gates + width + j);
    r.store(d, hn::Mul(reset, r.load(d, h0 + j)), gates + 3 * width + j);
  });
}

void gru_fresh(const float* x, const float* product, const float* bias, const float* h0,
               float* gates, float* y, int64_t width, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    const VF recurrent =
        hn::Add(r.load(d, product + 2 * width + j), r.load(d, bias + 2 * width + j));
    const VF fresh = vtanh(d, hn::Add(r.load(d, x + 2 * width + j), recurrent));
    r.store(d, fresh, gates + 2 * width + j);
    r.store(d, mixed(d, r.load(d, gates + j), fresh, r.load(d, h0 + j)), y + j);
  });
}

/// dx of z, and dh to its share that goes past the gates; the gradient to the inside of n's tanh.
template <typename R>
HWY_INLINE VF fresh_grad(R r, DF d, size_t j, const float* dy, const float* h0, const float* gates,
                         float* dx, float* dh, int64_t width) {
  const VF z = r.load(d, gates + j), fresh = r.load(d, gates + 2 * width + j);
  const VF h = hn::Add(r.load(d, dy + j), r.load(d, dh + j));
  const VF dz = hn::Mul(h, hn::Sub(r.load(d, h0 + j), fresh));
  r.store(d, through_sigmoid(d, z, dz), dx + j);
  r.store(d, hn::Mul(h, z), dh + j);
  return through_tanh(d, fresh, hn::Mul(h, hn::Sub(hn::Set(d, 1.0f), z)));
}

void gru_linear_grad(const float* dy, const float* h0, const float* gates, float* dx, float* dr,
                     float* dh, int64_t width, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    const VF a = fresh_grad(r, d, j, dy, h0, gates, dx, dh, width);
    const VF reset = r.load(d, gates + width + j), q = r.load(d, gates + 3 * width + j);
    const VF dreset = through_sigmoid(d, reset, hn::Mul(a, q));
    r.store(d, dreset, dx + width + j);
    r.store(d, a, dx + 2 * width + j);
    r.store(d, r.load(d, dx + j), dr + j);
    r.store(d, dreset, dr + width + j);
    r.store(d, hn::Mul(a, reset), dr + 2 * width + j);
  });
}

void gru_fresh_grad(const float* dy, const float* h0, const float* gates, float* dx, float* dh,
                    int64_t width, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    const VF a = fresh_grad(r, d, j, dy, h0, gates, dx, dh, width);
    r.store(d, a, dx + 2 * width + j);
  });
}

void gru_reset_grad(const float* dq, const float* h0, const float* gates, float* dx, float* dh,
                    int64_t width, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    const VF q = r.load(d, dq + j), reset = r.load(d, gates + width + j);
    const VF dreset = through_sigmoid(d, reset, hn::Mul(q, r.load(d, h0 + j)));
    r.store(d, dreset, dx + width + j);
    r.store(d, hn::MulAdd(q, reset, r.load(d, dh + j)), dh + j);
  });
}

}  // namespace

const RecurrentCells* get_recurrent_cells() {
  static constexpr RecurrentCells kCells = {lstm,           lstm_grad,     gru_linear,
                                            gru_reset,      gru_fresh,     gru_linear_grad,
                                            gru_fresh_grad, gru_reset_grad};
  return &kCells;
}

}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(get_recurrent_cells);

const RecurrentCells& recurrent_cells() {
  static const RecurrentCells& cells = *HWY_DYNAMIC_DISPATCH(get_recurrent_cells)();
  return cells;
}

}  // namespace trainrt
#endif
