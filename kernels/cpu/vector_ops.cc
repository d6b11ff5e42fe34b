#include "kernels/cpu/vector_ops.h"

#include "kernels/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_ops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {

// Readers give the vector at position i, and the last n < lanes ones with zeros behind them.
struct Full {
  HWY_INLINE VF operator()(DF d, const float* p) const { return hn::LoadU(d, p); }
  HWY_INLINE void store(DF d, VF v, float* p) const { hn::StoreU(v, d, p); }
  HWY_INLINE VF keep(DF, VF v) const { return v; }
};
struct Tail {
  size_t n;
  HWY_INLINE VF operator()(DF d, const float* p) const { return hn::LoadN(d, p, n); }
  HWY_INLINE void store(DF d, VF v, float* p) const { hn::StoreN(v, d, p, n); }
  HWY_INLINE VF keep(DF d, VF v) const { return hn::IfThenElseZero(hn::FirstN(d, n), v); }
};

/// f(reader, i) for every vector of a row.
template <typename F>
HWY_INLINE void each(int64_t count, const F& f) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) f(Full{}, i);
  if (i < n) f(Tail{n - i}, i);
}

/// Sum of f(reader, i), which must be 0 in lanes behind the end.
template <typename F>
HWY_INLINE double block_sum(int64_t count, const F& f) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d), block = 64 * lanes;
  double total = 0;
  size_t i = 0;
  while (i + lanes <= n) {
    const size_t end = i + block < n ? i + block : n;
    VF s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      s0 = hn::Add(s0, f(Full{}, i));
      s1 = hn::Add(s1, f(Full{}, i + lanes));
      s2 = hn::Add(s2, f(Full{}, i + 2 * lanes));
      s3 = hn::Add(s3, f(Full{}, i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) s0 = hn::Add(s0, f(Full{}, i));
    total += hn::ReduceSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  }
  if (i < n) total += hn::ReduceSum(d, f(Tail{n - i}, i));
  return total;
}

/// The chain rule's product: 0 where nothing flows in, whatever the factor is.
HWY_INLINE VF chain(DF d, VF dy, VF factor) {
  return hn::IfThenElse(hn::Eq(dy, hn::Zero(d)), dy, hn::Mul(dy, factor));
}

double sum(const float* x, int64_t n) {
  const DF d;
  return block_sum(n, [=](auto r, size_t i) HWY_ATTR { return r(d, x + i); });
}

double dot(const float* x, const float* y, int64_t n) {
  const DF d;
  return block_sum(n,
                   [=](auto r, size_t i) HWY_ATTR { return chain(d, r(d, x + i), r(d, y + i)); });
}

double square_deviation(const float* x, float mean, int64_t n) {
  const DF d;
  const VF m = hn::Set(d, mean);
  return block_sum(n, [=](auto r, size_t i) HWY_ATTR {
    const VF e = hn::Sub(r(d, x + i), m);
    return r.keep(d, hn::Mul(e, e));
  });
}

double deviation_dot(const float* x, float mean, const float* y, int64_t n) {
  const DF d;
  const VF m = hn::Set(d, mean);
  return block_sum(n, [=](auto r, size_t i) HWY_ATTR {
    return r.keep(d, hn::Mul(hn::Sub(r(d, x + i), m), r(d, y + i)));
  });
}

double exp_sum(const float* x, float shift, int64_t n) {
  const DF d;
  const VF m = hn::Set(d, shift);
  return block_sum(
      n, [=](auto r, size_t i) HWY_ATTR { return r.keep(d, vexp(d, hn::Sub(r(d, x + i), m))); });
}

double exp_store(const float* x, float shift, float* out, int64_t n) {
  const DF d;
  const VF m = hn::Set(d, shift);
  return block_sum(n, [=](auto r, size_t i) HWY_ATTR {
    const VF e = vexp(d, hn::Sub(r(d, x + i), m));
    r.store(d, e, out + i);
    return r.keep(d, e);
  });
}

struct MaxOf {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  static HWY_INLINE VF apply(VF a, VF b) { return vmax(a, b); }
  static HWY_INLINE VF quick(VF a, VF b) { return hn::Max(a, b); }
  static HWY_INLINE float reduce(DF d, VF v) { return hn::ReduceMax(d, v); }
};
struct MinOf {
  static constexpr float kStart = std::numeric_limits<float>::infinity();
  static HWY_INLINE VF apply(VF a, VF b) { return vmin(a, b); }
  static HWY_INLINE VF quick(VF a, VF b) { return hn::Min(a, b); }
  static HWY_INLINE float reduce(DF d, VF v) { return hn::ReduceMin(d, v); }
};

/// Plain maxima in four accumulators; NaN is looked for beside them.
template <typename M>
double extreme(const float* x, int64_t count) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  const VF start = hn::Set(d, M::kStart);
  VF b0 = start, b1 = start, b2 = start, b3 = start;
  MF nan = hn::MaskFalse(d);
  const auto take = [&](VF v, VF& best) HWY_ATTR {
    best = M::quick(v, best);
    nan = hn::Or(nan, hn::IsNaN(v));
  };
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    take(hn::LoadU(d, x + i), b0);
    take(hn::LoadU(d, x + i + lanes), b1);
    take(hn::LoadU(d, x + i + 2 * lanes), b2);
    take(hn::LoadU(d, x + i + 3 * lanes), b3);
  }
  for (; i + lanes <= n; i += lanes) take(hn::LoadU(d, x + i), b0);
  if (i < n) take(hn::LoadNOr(start, d, x + i, n - i), b1);
  if (!hn::AllFalse(d, nan)) return std::numeric_limits<double>::quiet_NaN();
  return M::reduce(d, M::quick(M::quick(b0, b1), M::quick(b2, b3)));
}

void affine(const float* x, float a, float b, float* out, int64_t n) {
  const DF d;
  const VF va = hn::Set(d, a), vb = hn::Set(d, b);
  each(n, [=](auto r, size_t i) HWY_ATTR { r.store(d, hn::MulAdd(r(d, x + i), va, vb), out + i); });
}

void centered(const float* x, float mean, float a, float b, float* out, int64_t n) {
  const DF d;
  const VF m = hn::Set(d, mean), va = hn::Set(d, a), vb = hn::Set(d, b);
  each(n, [=](auto r, size_t i)
              HWY_ATTR { r.store(d, hn::MulAdd(hn::Sub(r(d, x + i), m), va, vb), out + i); });
}

void centered2(const float* x, float mean, float a, const float* y, float b, float c, float* out,
               int64_t n) {
  const DF d;
  const VF m = hn::Set(d, mean), va = hn::Set(d, a), vb = hn::Set(d, b), vc = hn::Set(d, c);
  each(n, [=](auto r, size_t i) HWY_ATTR {
    const VF rest = hn::MulAdd(r(d, y + i), vb, vc);
    r.store(d, hn::MulAdd(hn::Sub(r(d, x + i), m), va, rest), out + i);
  });
}

void add_scaled(const float* x, float a, float* out, int64_t n) {
  const DF d;
  const VF va = hn::Set(d, a);
  each(n, [=](auto r, size_t i)
              HWY_ATTR { r.store(d, hn::MulAdd(r(d, x + i), va, r(d, out + i)), out + i); });
}

template <bool Scale, bool Bias>
void normalize_row(const float* x, float mean, float rsd, const float* scale, const float* bias,
                   float* out, int64_t n) {
  const DF d;
  const VF m = hn::Set(d, mean), s = hn::Set(d, rsd);
  each(n, [=](auto r, size_t i) HWY_ATTR {
    VF z = hn::Mul(hn::Sub(r(d, x + i), m), s);
    if constexpr (Scale && Bias) {
      z = hn::MulAdd(z, r(d, scale + i), r(d, bias + i));
    } else if constexpr (Scale) {
      z = hn::Mul(z, r(d, scale + i));
    } else if constexpr (Bias) {
      z = hn::Add(z, r(d, bias + i));
    }
    r.store(d, z, out + i);
  });
}

void normalize(const float* x, float mean, float rsd, const float* scale, const float* bias,
               float* out, int64_t n) {
  if (scale && bias) return normalize_row<true, true>(x, mean, rsd, scale, bias, out, n);
  if (scale) return normalize_row<true, false>(x, mean, rsd, scale, bias, out, n);
  if (bias) return normalize_row<false, true>(x, mean, rsd, scale, bias, out, n);
  normalize_row<false, false>(x, mean, rsd, scale, bias, out, n);
}

void softmax_grad(const float* dy, const float* y, float dot, float* out, int64_t n) {
  const DF d;
  const VF s = hn::Set(d, dot);
  each(n, [=](auto r, size_t i)
              HWY_ATTR { r.store(d, chain(d, hn::Sub(r(d, dy + i), s), r(d, y + i)), out + i); });
}

void log_softmax_grad(const float* dy, const float* y, float sum, float* out, int64_t n) {
  const DF d;
  const VF s = hn::Set(d, sum);
  each(n, [=](auto r, size_t i) HWY_ATTR {
    r.store(d, hn::Sub(r(d, dy + i), chain(d, s, vexp(d, r(d, y + i)))), out + i);
  });
}

void exp_scaled(const float* x, float shift, float a, float* out, int64_t n) {
  const DF d;
  const VF m = hn::Set(d, shift), s = hn::Set(d, a);
  each(n, [=](auto r, size_t i)
              HWY_ATTR { r.store(d, hn::Mul(vexp(d, hn::Sub(r(d, x + i), m)), s), out + i); });
}

template <bool Scale>
void layer_norm_sums_row(const float* dy, const float* x, const float* scale, float mean, float rsd,
                         int64_t count, double* g_sum, double* gz_sum) {
  const DF d;
  const VF m = hn::Set(d, mean), s = hn::Set(d, rsd);
  VF a = hn::Zero(d), b = a;
  double sa = 0, sb = 0;
  int64_t pending = 0;
  each(count, [&](auto r, size_t i) HWY_ATTR {
    VF g = r(d, dy + i);
    if constexpr (Scale) g = hn::Mul(g, r(d, scale + i));
    a = hn::Add(a, g);
    b = hn::MulAdd(g, hn::Mul(hn::Sub(r(d, x + i), m), s), b);
    if (++pending == 64) {
      sa += hn::ReduceSum(d, a);
      sb += hn::ReduceSum(d, b);
      a = b = hn::Zero(d);
      pending = 0;
    }
  });
  *g_sum = sa + hn::ReduceSum(d, a);
  *gz_sum = sb + hn::ReduceSum(d, b);
}

void layer_norm_sums(const float* dy, const float* x, const float* scale, float mean, float rsd,
                     int64_t n, double* g_sum, double* gz_sum) {
  if (scale) return layer_norm_sums_row<true>(dy, x, scale, mean, rsd, n, g_sum, gz_sum);
  layer_norm_sums_row<false>(dy, x, scale, mean, rsd, n, g_sum, gz_sum);
}

template <bool Scale, bool Sums>
void layer_norm_grad_row(const float* dy, const float* x, const float* scale, float mean, float rsd,
                         float a, float b, float* dx, float* dscale, float* dbias, int64_t n) {
  const DF d;
  const VF m = hn::Set(d, mean), s = hn::Set(d, rsd), va = hn::Set(d, a), vb = hn::Set(d, b);
  each(n, [=](auto r, size_t i) HWY_ATTR {
    const VF g0 = r(d, dy + i), z = hn::Mul(hn::Sub(r(d, x + i), m), s);
    const VF g = Scale ? hn::Mul(g0, r(d, Scale ? scale + i : dy + i)) : g0;
    r.store(d, hn::Mul(s, hn::NegMulAdd(z, vb, hn::Sub(g, va))), dx + i);
    if constexpr (Sums) {
      r.store(d, hn::MulAdd(g0, z, r(d, dscale + i)), dscale + i);
      r.store(d, hn::Add(g0, r(d, dbias + i)), dbias + i);
    }
  });
}

void layer_norm_grad(const float* dy, const float* x, const float* scale, float mean, float rsd,
                     float a, float b, float* dx, float* dscale, float* dbias, int64_t n) {
  const auto f =
      scale ? (dscale ? layer_norm_grad_row<true, true> : layer_norm_grad_row<true, false>)
            : (dscale ? layer_norm_grad_row<false, true> : layer_norm_grad_row<false, false>);
  f(dy, x, scale, mean, rsd, a, b, dx, dscale, dbias, n);
}

/// out[j] = sum over rows of f(reader, row, j), 64 rows at a time, four vectors of columns side by
/// side.
template <typename F>
HWY_INLINE void column_reduce(int64_t rows, float* out, int64_t count, const F& f) {
  const DF d;
  const size_t n = static_cast<size_t>(count), lanes = hn::Lanes(d);
  size_t j = 0;
  for (; j + 4 * lanes <= n; j += 4 * lanes) {
    VF t0 = hn::Zero(d), t1 = t0, t2 = t0, t3 = t0;
    for (int64_t begin = 0; begin < rows; begin += 64) {
      const int64_t end = begin + 64 < rows ? begin + 64 : rows;
      VF s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for (int64_t r = begin; r < end; ++r) {
        s0 = hn::Add(s0, f(Full{}, r, j));
        s1 = hn::Add(s1, f(Full{}, r, j + lanes));
        s2 = hn::Add(s2, f(Full{}, r, j + 2 * lanes));
        s3 = hn::Add(s3, f(Full{}, r, j + 3 * lanes));
      }
      t0 = hn::Add(t0, s0);
      t1 = hn::Add(t1, s1);
      t2 = hn::Add(t2, s2);
      t3 = hn::Add(t3, s3);
    }
    hn::StoreU(t0, d, out + j);
    hn::StoreU(t1, d, out + j + lanes);
    hn::StoreU(t2, d, out + j + 2 * lanes);
    hn::StoreU(t3, d, out + j + 3 * lanes);
  }
  const auto rest = [&](auto reader, size_t at) HWY_ATTR {
    VF total = hn::Zero(d);
    for (int64_t begin = 0; begin < rows; begin += 64) {
      const int64_t end = begin + 64 < rows ? begin + 64 : rows;
      VF s = hn::Zero(d);
      for (int64_t r = begin; r < end; ++r) s = hn::Add(s, f(reader, r, at));
      total = hn::Add(total, s);
    }
    reader.store(d, total, out + at);
  };
  for (; j + lanes <= n; j += lanes) rest(Full{}, j);
  if (j < n) rest(Tail{n - j}, j);
}

void column_sum(const float* x, int64_t rows, int64_t stride, float* out, int64_t n) {
  const DF d;
  column_reduce(rows, out, n,
                [=](auto r, int64_t row, size_t j) HWY_ATTR { return r(d, x + row * stride + j); });
}

void column_dot(const float* x, const float* y, int64_t rows, int64_t stride, float* out,
                int64_t n) {
  const DF d;
  column_reduce(rows, out, n, [=](auto r, int64_t row, size_t j) HWY_ATTR {
    return chain(d, r(d, x + row * stride + j), r(d, y + row * stride + j));
  });
}

void column_square_deviation(const float* x, const float* mean, int64_t rows, int64_t stride,
                             float* out, int64_t n) {
  const DF d;
  column_reduce(rows, out, n, [=](auto r, int64_t row, size_t j) HWY_ATTR {
    const VF e = hn::Sub(r(d, x + row * stride + j), r(d, mean + j));
    return hn::Mul(e, e);
  });
}

void column_deviation_dot(const float* x, const float* mean, const float* y, int64_t rows,
                          int64_t stride, float* out, int64_t n) {
  const DF d;
  column_reduce(rows, out, n, [=](auto r, int64_t row, size_t j) HWY_ATTR {
    const VF e = hn::Sub(r(d, x + row * stride + j), r(d, mean + j));
    return hn::Mul(e, r(d, y + row * stride + j));
  });
}

template <typename M>
void column_extreme(const float* x, int64_t rows, int64_t stride, float* out, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t j) HWY_ATTR {
    VF best = hn::Set(d, M::kStart);
    for (int64_t row = 0; row < rows; ++row) best = M::apply(r(d, x + row * stride + j), best);
    r.store(d, best, out + j);
  });
}

void add(const float* x, const float* y, float* out, int64_t n) {
  const DF d;
  each(n,
       [=](auto r, size_t i) HWY_ATTR { r.store(d, hn::Add(r(d, x + i), r(d, y + i)), out + i); });
}

template <typename M>
void extreme2(const float* x, const float* y, float* out, int64_t n) {
  const DF d;
  each(n,
       [=](auto r, size_t i) HWY_ATTR { r.store(d, M::apply(r(d, x + i), r(d, y + i)), out + i); });
}

void multiply(const float* x, const float* y, float* out, int64_t n) {
  const DF d;
  each(n,
       [=](auto r, size_t i) HWY_ATTR { r.store(d, hn::Mul(r(d, x + i), r(d, y + i)), out + i); });
}

void affine_rows(const float* x, const float* a, const float* b, float* out, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t i)
              HWY_ATTR { r.store(d, hn::MulAdd(r(d, x + i), r(d, a + i), r(d, b + i)), out + i); });
}

void centered_rows(const float* x, const float* mean, const float* a, const float* b, float* out,
                   int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t i) HWY_ATTR {
    const VF e = hn::Sub(r(d, x + i), r(d, mean + i));
    r.store(d, hn::MulAdd(e, r(d, a + i), r(d, b + i)), out + i);
  });
}

void centered2_rows(const float* x, const float* mean, const float* a, const float* y,
                    const float* b, const float* c, float* out, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t i) HWY_ATTR {
    const VF rest = hn::MulAdd(r(d, y + i), r(d, b + i), r(d, c + i));
    const VF e = hn::Sub(r(d, x + i), r(d, mean + i));
    r.store(d, hn::MulAdd(e, r(d, a + i), rest), out + i);
  });
}

void exp_rows(const float* x, const float* shift, float* out, float* sum, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t i) HWY_ATTR {
    const VF e = vexp(d, hn::Sub(r(d, x + i), r(d, shift + i)));
    if (out) r.store(d, e, out + i);
    r.store(d, hn::Add(r(d, sum + i), e), sum + i);
  });
}

void exp_scaled_rows(const float* x, const float* shift, const float* a, float* out, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t i) HWY_ATTR {
    r.store(d, hn::Mul(vexp(d, hn::Sub(r(d, x + i), r(d, shift + i))), r(d, a + i)), out + i);
  });
}

void softmax_grad_rows(const float* dy, const float* y, const float* dot, float* out, int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t i) HWY_ATTR {
    r.store(d, chain(d, hn::Sub(r(d, dy + i), r(d, dot + i)), r(d, y + i)), out + i);
  });
}

void log_softmax_grad_rows(const float* dy, const float* y, const float* sum, float* out,
                           int64_t n) {
  const DF d;
  each(n, [=](auto r, size_t i) HWY_ATTR {
    r.store(d, hn::Sub(r(d, dy + i), chain(d, r(d, sum + i), vexp(d, r(d, y + i)))), out + i);
  });
}

}  // namespace

VectorOps make_vector_ops() {
  return {.sum = sum,
          .max = extreme<MaxOf>,
          .min = extreme<MinOf>,
          .dot = dot,
          .square_deviation = square_deviation,
          .deviation_dot = deviation_dot,
          .exp_sum = exp_sum,
          .exp_store = exp_store,
          .affine = affine,
          .centered = centered,
          .centered2 = centered2,
          .add_scaled = add_scaled,
          .normalize = normalize,
          .softmax_grad = softmax_grad,
          .log_softmax_grad = log_softmax_grad,
          .exp_scaled = exp_scaled,
          .layer_norm_sums = layer_norm_sums,
          .layer_norm_grad = layer_norm_grad,
          .column_sum = column_sum,
          .column_max = column_extreme<MaxOf>,
          .column_min = column_extreme<MinOf>,
          .column_dot = column_dot,
          .column_square_deviation = column_square_deviation,
          .column_deviation_dot = column_deviation_dot,
          .add = add,
          .max2 = extreme2<MaxOf>,
          .min2 = extreme2<MinOf>,
          .multiply = multiply,
          .affine_rows = affine_rows,
          .centered_rows = centered_rows,
          .centered2_rows = centered2_rows,
          .exp_rows = exp_rows,
          .exp_scaled_rows = exp_scaled_rows,
          .softmax_grad_rows = softmax_grad_rows,
          .log_softmax_grad_rows = log_softmax_grad_rows};
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(make_vector_ops);

const VectorOps& vector_ops() {
  static const VectorOps ops = HWY_DYNAMIC_DISPATCH(make_vector_ops)();
  return ops;
}

}  // namespace trainrt
#endif
