#include "graph/attention.h"

#include <cmath>

#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

struct AttentionPlan {
  AttentionAttrs attrs;
  AttentionDims n;
  HeadStrides q, k, v, y;
  size_t operands;  // 3, or 1 when they are packed
  bool masked;
  std::vector<int64_t> mask;  // strides
};

AttentionPlan attention_plan(const NodeView& node, size_t first, size_t mask) {
  const auto& attrs = node.attr<AttentionAttrs>();
  const AttentionDims n(attrs, node.inputs.subspan(first));
  AttentionPlan p{attrs,
                  n,
                  n.q_strides(attrs),
                  n.k_strides(attrs),
                  n.v_strides(attrs),
                  n.y_strides(attrs),
                  attrs.packed ? size_t{1} : size_t{3},
                  node.inputs.size() > mask,
                  {}};
  if (p.masked) {
    const Shape scores = {n.batch, n.heads, n.queries, n.keys};
    p.mask = broadcast_strides(node.inputs[mask].shape, scores);
  }
  return p;
}

int64_t at(const HeadStrides& s, int64_t b, int64_t h, int64_t t) {
  return b * s.batch + h * s.head + t * s.token;
}

/// The q, k and v among the arguments from `first` on, or their gradients.
template <typename T, typename Get>
void operands(const AttentionPlan& p, Get get, T** out) {
  for (size_t i = 0; i < 3; ++i) {
    out[i] = p.attrs.packed ? get(0) + static_cast<int64_t>(i) * p.n.heads * p.n.size : get(i);
  }
}

template <typename T>
double dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

/// The scores that query i sees; their number.
template <typename T>
int64_t scores(const AttentionPlan& p, const T* q, const T* k, const T* mask, int64_t b, int64_t h,
               int64_t i, double* s) {
  const int64_t seen = p.n.visible(p.attrs, i), kv = h / (p.n.heads / p.n.kv_heads);
  for (int64_t j = 0; j < seen; ++j) {
    s[j] = p.attrs.scale * dot(q + at(p.q, b, h, i), k + at(p.k, b, kv, j), p.n.size);
    if (p.masked) s[j] += mask[b * p.mask[0] + h * p.mask[1] + i * p.mask[2] + j * p.mask[3]];
  }
  return seen;
}

// y = softmax(scale q k^T + mask) v; log-sum = log of the sum of e^score
template <typename T>
void attention(const AttentionPlan& p, const KernelArgs& args) {
  const T* x[3];
  operands<const T>(
      p, [&](size_t i) { return args.input<T>(i); }, x);
  const T* mask = p.masked ? args.input<T>(p.operands) : nullptr;
#pragma omp parallel for schedule(static)
  for (int64_t bh = 0; bh < p.n.batch * p.n.heads; ++bh) {
    const int64_t b = bh / p.n.heads, h = bh % p.n.heads, kv = h / (p.n.heads / p.n.kv_heads);
    std::vector<double> s(static_cast<size_t>(p.n.keys));
    for (int64_t i = 0; i < p.n.queries; ++i) {
      const int64_t seen = scores(p, x[0], x[1], mask, b, h, i, s.data());
      double peak = lowest<double>(), sum = 0;
      for (int64_t j = 0; j < seen; ++j) peak = maximum(peak, s[static_cast<size_t>(j)]);
      for (int64_t j = 0; j < seen; ++j) {
        double& e = s[static_cast<size_t>(j)];
        sum += e = std::exp(e - peak);
      }
      // Without a key the softmax is 0/0, as it is where the mask leaves none.
      if (seen == 0) sum = std::numeric_limits<double>::quiet_NaN();
      T* y = args.output<T>(0) + at(p.y, b, h, i);
      for (int64_t c = 0; c < p.n.value_size; ++c) {
        double value = seen == 0 ? sum : 0;
        for (int64_t j = 0; j < seen; ++j) {
          value += s[static_cast<size_t>(j)] / sum * x[2][at(p.v, b, kv, j) + c];
        }
        y[c] = static_cast<T>(value);
      }
      args.output<T>(1)[bh * p.n.queries + i] = static_cast<T>(peak + std::log(sum));
    }
  }
}

/// The chain rule's product: 0 where nothing flows in, whatever the factor is.
double chain(double dy, double factor) { return dy == 0 ? 0 : dy * factor; }

// With P = e^(score - log-sum) and D = sum of dy y: dv = P^T dy, dS = P (dy v^T - D),
// dq = scale dS k, dk = scale dS^T q
template <typename T>
void attention_grad(const AttentionPlan& p, const KernelArgs& args) {
  const T* x[3];
  T* dx[3];
  operands<const T>(
      p, [&](size_t i) { return args.input<T>(i + 1); }, x);
  operands<T>(
      p, [&](size_t i) { return args.output<T>(i); }, dx);
  const T *dy = args.input<T>(0), *y = args.input<T>(p.operands + 1),
          *log_sums = args.input<T>(p.operands + 2),
          *mask = p.masked ? args.input<T>(p.operands + 3) : nullptr;
  const int64_t group = p.n.kv_heads == 0 ? 1 : p.n.heads / p.n.kv_heads;
  const auto add_to = [](std::vector<double>& sum, int64_t row, double factor, const T* v,
                         int64_t n) {
    for (int64_t c = 0; c < n; ++c) sum[static_cast<size_t>(row * n + c)] += factor * v[c];
  };
  const auto store = [](const std::vector<double>& sum, int64_t row, T* out, int64_t n) {
    for (int64_t c = 0; c < n; ++c) out[c] = static_cast<T>(sum[static_cast<size_t>(row * n + c)]);
  };
#pragma omp parallel for schedule(static)
  for (int64_t bk = 0; bk < p.n.batch * p.n.kv_heads; ++bk) {
    const int64_t b = bk / p.n.kv_heads, kv = bk % p.n.kv_heads;
    std::vector<double> s(static_cast<size_t>(p.n.keys)), dq(static_cast<size_t>(p.n.size));
    std::vector<double> dk(static_cast<size_t>(p.n.keys * p.n.size)),
        dv(static_cast<size_t>(p.n.keys * p.n.value_size));
    for (int64_t h = kv * group; h < (kv + 1) * group; ++h) {
      for (int64_t i = 0; i < p.n.queries; ++i) {
        const int64_t seen = scores(p, x[0], x[1], mask, b, h, i, s.data());
        const T *row_dy = dy + at(p.y, b, h, i), *row_y = y + at(p.y, b, h, i);
        const double log_sum = log_sums[(b * p.n.heads + h) * p.n.queries + i];
        double sum = 0;
        for (int64_t c = 0; c < p.n.value_size; ++c) sum += chain(row_dy[c], row_y[c]);
        std::fill(dq.begin(), dq.end(), 0);
        for (int64_t j = 0; j < seen; ++j) {
          const double weight = std::exp(s[static_cast<size_t>(j)] - log_sum);
          const T *row_v = x[2] + at(p.v, b, kv, j), *row_k = x[1] + at(p.k, b, kv, j);
          const double ds = p.attrs.scale * chain(dot(row_dy, row_v, p.n.value_size) - sum, weight);
          add_to(dv, j, weight, row_dy, p.n.value_size);
          add_to(dk, j, ds, x[0] + at(p.q, b, h, i), p.n.size);
          add_to(dq, 0, ds, row_k, p.n.size);
        }
        store(dq, 0, dx[0] + at(p.q, b, h, i), p.n.size);
      }
    }
    for (int64_t j = 0; j < p.n.keys; ++j) {
      store(dk, j, dx[1] + at(p.k, b, kv, j), p.n.size);
      store(dv, j, dx[2] + at(p.v, b, kv, j), p.n.value_size);
    }
  }
}

std::unique_ptr<Kernel> plan_attention(const NodeView& node, Scratch&) {
  const size_t operands = node.attr<AttentionAttrs>().packed ? 1 : 3;
  return bind_float(node.outputs[0].dtype, attention_plan(node, 0, operands),
                    []<typename T>() { return attention<T>; });
}

std::unique_ptr<Kernel> plan_attention_grad(const NodeView& node, Scratch&) {
  const size_t operands = node.attr<AttentionAttrs>().packed ? 1 : 3;
  return bind_float(node.outputs[0].dtype, attention_plan(node, 1, operands + 3),
                    []<typename T>() { return attention_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kAttention, "reference", takes_floats, plan_attention},
    {Op::kAttentionGrad, "reference", takes_floats, plan_attention_grad},
};

}  // namespace

std::span<const KernelRow> reference_attention_kernels() { return kRows; }

}  // namespace trainrt::reference
