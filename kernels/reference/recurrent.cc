#include <cmath>

#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

struct RecurrentPlan {
  int64_t steps, batch, hidden;
  bool reverse, linear_before_reset, cell_gradient;

  /// The k-th step in order of computation, and the one before it; -1: the initial state.
  int64_t step(int64_t k) const { return reverse ? steps - 1 - k : k; }
  int64_t before(int64_t k) const { return k == 0 ? -1 : step(k - 1); }
};

/// By the first output or, of gradients, the first operand: [steps, batch, hidden].
RecurrentPlan recurrent_plan(const NodeView& node, const Shape& states) {
  const auto& attr = node.attr<RecurrentAttrs>();
  return {states[0],
          states[1],
          states[2],
          attr.reverse,
          attr.linear_before_reset,
          node.inputs.size() > 7};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Sum over u of h[u] r[j, u].
template <typename T>
double recurrent_product(const T* h, const T* r, int64_t j, int64_t hidden) {
  double sum = 0;
  for (int64_t u = 0; u < hidden; ++u) sum += static_cast<double>(h[u]) * r[j * hidden + u];
  return sum;
}

// [i o f g] = sigmoid, sigmoid, sigmoid, tanh of x + h' r^T, c = f c' + i g, y = o tanh c
template <typename T>
void lstm(const RecurrentPlan& p, const KernelArgs& args) {
  const T *x = args.input<T>(0), *r = args.input<T>(1);
  T *y = args.output<T>(0), *c = args.output<T>(1), *gates = args.output<T>(2);
  const int64_t n = p.hidden;
#pragma omp parallel for schedule(static) if (p.steps * p.batch * n * n > kParallel)
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t k = 0; k < p.steps; ++k) {
      const int64_t row = p.step(k) * p.batch + b, last = p.before(k) * p.batch + b;
      const T* h0 = k == 0 ? args.input<T>(2) + b * n : y + last * n;
      const T* c0 = k == 0 ? args.input<T>(3) + b * n : c + last * n;
      T* gate = gates + row * 4 * n;
      for (int64_t j = 0; j < 4 * n; ++j) {
        const double v = x[row * 4 * n + j] + recurrent_product(h0, r, j, n);
        gate[j] = static_cast<T>(j < 3 * n ? sigmoid(v) : std::tanh(v));
      }
      for (int64_t j = 0; j < n; ++j) {
        const double cell = static_cast<double>(gate[2 * n + j]) * c0[j] +
                            static_cast<double>(gate[j]) * gate[3 * n + j];
        c[row * n + j] = static_cast<T>(cell);
        y[row * n + j] = static_cast<T>(gate[n + j] * std::tanh(cell));
      }
    }
  }
}

/// dr[j, u] = sum over steps and batch of d[step, b, j] h'[step, b, u]; d has `width` columns.
template <typename T>
void weight_gradient(const RecurrentPlan& p, const double* d, int64_t width, const T* h0,
                     const T* y, T* dr) {
  const int64_t n = p.hidden;
#pragma omp parallel for schedule(static) if (p.steps * p.batch * width * n > kParallel)
  for (int64_t j = 0; j < width; ++j) {
    for (int64_t u = 0; u < n; ++u) {
      double sum = 0;
      for (int64_t k = 0; k < p.steps; ++k) {
        for (int64_t b = 0; b < p.batch; ++b) {
          const T* h = k == 0 ? h0 + b * n : y + (p.before(k) * p.batch + b) * n;
          sum += d[(p.step(k) * p.batch + b) * width + j] * h[u];
        }
      }
      dr[j * n + u] = static_cast<T>(sum);
    }
  }
}

// dh = dy + dh', dc = dc' + dh o (1 - tanh^2 c) (+ the cell's own), then by the chain rule
// di = dc g i (1 - i), do = dh tanh c o (1 - o), df = dc c' f (1 - f), dg = dc i (1 - g^2);
// before it dc' = dc f, dh' = [di do df dg] r
template <typename T>
void lstm_grad(const RecurrentPlan& p, const KernelArgs& args) {
  const T *dy = args.input<T>(0), *r = args.input<T>(1), *h0 = args.input<T>(2),
          *initial_c = args.input<T>(3), *y = args.input<T>(4), *c = args.input<T>(5),
          *gates = args.input<T>(6);
  const int64_t n = p.hidden;
  double* d = static_cast<double*>(args.scratch);
  double* states = d + p.steps * p.batch * 4 * n;
#pragma omp parallel for schedule(static) if (p.steps * p.batch * n * n > kParallel)
  for (int64_t b = 0; b < p.batch; ++b) {
    double *dh = states + b * 2 * n, *dc = dh + n;
    std::fill_n(dh, 2 * n, 0.0);
    for (int64_t k = p.steps; k-- > 0;) {
      const int64_t row = p.step(k) * p.batch + b;
      const T* c0 = k == 0 ? initial_c + b * n : c + (p.before(k) * p.batch + b) * n;
      const T* gate = gates + row * 4 * n;
      double* to = d + row * 4 * n;
      for (int64_t j = 0; j < n; ++j) {
        const double i = gate[j], o = gate[n + j], f = gate[2 * n + j], g = gate[3 * n + j];
        const double tanh_c = std::tanh(static_cast<double>(c[row * n + j]));
        const double dhj = dh[j] + dy[row * n + j];
        double dcj = dc[j] + dhj * o * (1 - tanh_c * tanh_c);
        if (p.cell_gradient) dcj += args.input<T>(7)[row * n + j];
        to[j] = dcj * g * i * (1 - i);
        to[n + j] = dhj * tanh_c * o * (1 - o);
        to[2 * n + j] = dcj * c0[j] * f * (1 - f);
        to[3 * n + j] = dcj * i * (1 - g * g);
        dc[j] = dcj * f;
      }
      std::fill_n(dh, n, 0.0);
      for (int64_t j = 0; j < 4 * n; ++j) {
        args.output<T>(0)[row * 4 * n + j] = static_cast<T>(to[j]);
        for (int64_t u = 0; u < n; ++u) dh[u] += to[j] * r[j * n + u];
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      args.output<T>(2)[b * n + j] = static_cast<T>(dh[j]);
      args.output<T>(3)[b * n + j] = static_cast<T>(dc[j]);
    }
  }
  weight_gradient(p, d, 4 * n, h0, y, args.output<T>(1));
}

// z, r = sigmoid(x + h' r^T + bias); q = h' rn^T + bias_n and n = tanh(x + r q), or (reset first)
// q = r h' and n = tanh(x + q rn^T + bias_n); y = (1 - z) n + z h'. The gates are z, r, n, q.
template <typename T>
void gru(const RecurrentPlan& p, const KernelArgs& args) {
  const T *x = args.input<T>(0), *r = args.input<T>(1), *bias = args.input<T>(2);
  T *y = args.output<T>(0), *gates = args.output<T>(1);
  const int64_t n = p.hidden;
#pragma omp parallel for schedule(static) if (p.steps * p.batch * n * n > kParallel)
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t k = 0; k < p.steps; ++k) {
      const int64_t row = p.step(k) * p.batch + b;
      const T* h0 = k == 0 ? args.input<T>(3) + b * n : y + (p.before(k) * p.batch + b) * n;
      const T* in = x + row * 3 * n;
      T* gate = gates + row * 4 * n;
      for (int64_t j = 0; j < 2 * n; ++j) {
        gate[j] = static_cast<T>(sigmoid(in[j] + recurrent_product(h0, r, j, n) + bias[j]));
      }
      T *reset = gate + n, *q = gate + 3 * n;
      for (int64_t j = 0; j < n; ++j) {
        q[j] = static_cast<T>(p.linear_before_reset
                                  ? recurrent_product(h0, r, 2 * n + j, n) + bias[2 * n + j]
                                  : static_cast<double>(reset[j]) * h0[j]);
      }
      for (int64_t j = 0; j < n; ++j) {
        const double part = p.linear_before_reset
                                ? static_cast<double>(reset[j]) * q[j]
                                : recurrent_product(q, r, 2 * n + j, n) + bias[2 * n + j];
        const double fresh = std::tanh(in[2 * n + j] + part), z = gate[j];
        gate[2 * n + j] = static_cast<T>(fresh);
        y[row * n + j] = static_cast<T>((1 - z) * fresh + z * h0[j]);
      }
    }
  }
}

// With a = dn (1 - n^2), dn = dh (1 - z), and dz = dh (h' - n): q's gradient is a r (the reset's
// a q), or (reset first) a rn (the reset's dq h'); dh' = dh z + what comes through the products
template <typename T>
void gru_grad(const RecurrentPlan& p, const KernelArgs& args) {
  const T *dy = args.input<T>(0), *r = args.input<T>(1), *h0 = args.input<T>(2),
          *y = args.input<T>(3), *gates = args.input<T>(4);
  const int64_t n = p.hidden, rows = p.steps * p.batch;
  double* d = static_cast<double*>(args.scratch);  // gradients of the gates' recurrent parts
  double* states = d + rows * 3 * n;
#pragma omp parallel for schedule(static) if (rows * n * n > kParallel)
  for (int64_t b = 0; b < p.batch; ++b) {
    double *dh = states + b * 2 * n, *dq = dh + n;
    std::fill_n(dh, n, 0.0);
    for (int64_t k = p.steps; k-- > 0;) {
      const int64_t row = p.step(k) * p.batch + b;
      const T* h = k == 0 ? h0 + b * n : y + (p.before(k) * p.batch + b) * n;
      const T* gate = gates + row * 4 * n;
      T* dx = args.output<T>(0) + row * 3 * n;
      double* to = d + row * 3 * n;
      for (int64_t j = 0; j < n; ++j) {
        const double z = gate[j], reset = gate[n + j], fresh = gate[2 * n + j];
        const double dhj = dh[j] + dy[row * n + j], a = dhj * (1 - z) * (1 - fresh * fresh);
        to[j] = dhj * (h[j] - fresh) * z * (1 - z);
        to[2 * n + j] = p.linear_before_reset ? a * reset : a;
        dx[2 * n + j] = static_cast<T>(a);
        dh[j] = dhj * z;
        dq[j] = a;
      }
      if (!p.linear_before_reset) {
        std::fill_n(dq, n, 0.0);
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t u = 0; u < n; ++u) dq[u] += to[2 * n + j] * r[(2 * n + j) * n + u];
        }
      }
      for (int64_t j = 0; j < n; ++j) {
        const double reset = gate[n + j];
        to[n + j] = dq[j] * (p.linear_before_reset ? gate[3 * n + j] : h[j]) * reset * (1 - reset);
        if (!p.linear_before_reset) dh[j] += dq[j] * reset;
        dx[j] = static_cast<T>(to[j]);
        dx[n + j] = static_cast<T>(to[n + j]);
      }
      for (int64_t j = 0; j < (p.linear_before_reset ? 3 : 2) * n; ++j) {
        for (int64_t u = 0; u < n; ++u) dh[u] += to[j] * r[j * n + u];
      }
    }
    for (int64_t j = 0; j < n; ++j) args.output<T>(3)[b * n + j] = static_cast<T>(dh[j]);
  }
  weight_gradient(p, d, 3 * n, h0, y, args.output<T>(1));
  for (int64_t j = 0; j < 3 * n; ++j) {
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += d[row * 3 * n + j];
    args.output<T>(2)[j] = static_cast<T>(sum);
  }
  if (p.linear_before_reset) return;
  for (int64_t j = 2 * n; j < 3 * n; ++j) {
    for (int64_t u = 0; u < n; ++u) {
      double sum = 0;
      for (int64_t row = 0; row < rows; ++row) {
        sum += d[row * 3 * n + j] * gates[row * 4 * n + 3 * n + u];
      }
      args.output<T>(1)[j * n + u] = static_cast<T>(sum);
    }
  }
}

std::unique_ptr<Kernel> plan_lstm(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, recurrent_plan(node, node.outputs[0].shape),
                    []<typename T>() { return lstm<T>; });
}

std::unique_ptr<Kernel> plan_gru(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, recurrent_plan(node, node.outputs[0].shape),
                    []<typename T>() { return gru<T>; });
}

/// The plan of a gradient, with room for `parts` gradients a step and two states.
RecurrentPlan gradient_plan(const NodeView& node, int64_t parts, Scratch& scratch) {
  const RecurrentPlan p = recurrent_plan(node, node.inputs[0].shape);
  const int64_t states = p.batch * p.hidden;
  scratch.bytes = static_cast<size_t>((p.steps * parts + 2) * states) * sizeof(double);
  return p;
}

std::unique_ptr<Kernel> plan_lstm_grad(const NodeView& node, Scratch& scratch) {
  return bind_float(node.outputs[0].dtype, gradient_plan(node, 4, scratch),
                    []<typename T>() { return lstm_grad<T>; });
}

std::unique_ptr<Kernel> plan_gru_grad(const NodeView& node, Scratch& scratch) {
  return bind_float(node.outputs[0].dtype, gradient_plan(node, 3, scratch),
                    []<typename T>() { return gru_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kLstm, "reference", takes_floats, plan_lstm},
    {Op::kLstmGrad, "reference", takes_floats, plan_lstm_grad},
    {Op::kGru, "reference", takes_floats, plan_gru},
    {Op::kGruGrad, "reference", takes_floats, plan_gru_grad},
};

}  // namespace

std::span<const KernelRow> reference_recurrent_kernels() { return kRows; }

}  // namespace trainrt::reference
