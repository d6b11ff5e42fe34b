#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/recurrent.h"

namespace trainrt::cuda {
namespace {

template <typename T>
__device__ T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

template <typename T>
__device__ const T* in(const void* data) {
  return static_cast<const T*>(data);
}
template <typename T>
__device__ T* out(void* data) {
  return static_cast<T*>(data);
}

// [i o f g] = sigmoid, sigmoid, sigmoid, tanh of x + h' R^T, c = f c' + i g, y = o tanh c
template <typename T>
__device__ void lstm(const CellArguments& args) {
  const i64 n = args.hidden;
  for (i64 t = global_index(); t < args.batch * n; t += global_size()) {
    const i64 at = t / n * 4 * n + t % n;
    const auto pre = [&](int k) {
      return in<T>(args.x)[at + k * n] + in<T>(args.product)[at + k * n];
    };
    const T i = sigmoid(pre(0)), o = sigmoid(pre(1)), f = sigmoid(pre(2)), g = tanh(pre(3));
    const T c = f * in<T>(args.c)[t] + i * g;
    T* gates = out<T>(args.gates) + at;
    gates[0] = i;
    gates[n] = o;
    gates[2 * n] = f;
    gates[3 * n] = g;
    out<T>(args.c_out)[t] = c;
    out<T>(args.y)[t] = o * tanh(c);
  }
}

template <typename T>
__device__ T came_back(const CellGradArguments& args, i64 t) {
  T dh = in<T>(args.dy)[t];
  for (int k = 0; k < 2; ++k) {
    if (args.back[k] != nullptr) dh += in<T>(args.back[k])[t];
  }
  return dh;
}

template <typename T>
__device__ void lstm_grad(const CellGradArguments& args) {
  const i64 n = args.hidden;
  for (i64 t = global_index(); t < args.batch * n; t += global_size()) {
    const i64 at = t / n * 4 * n + t % n;
    const T* gates = in<T>(args.gates) + at;
    const T i = gates[0], o = gates[n], f = gates[2 * n], g = gates[3 * n];
    const T tanh_c = tanh(in<T>(args.c)[t]), dh = came_back<T>(args, t);
    T dc = out<T>(args.dc)[t] + dh * o * (T(1) - tanh_c * tanh_c);
    if (args.dc_given != nullptr) dc += in<T>(args.dc_given)[t];
    T* dx = out<T>(args.dx) + at;
    dx[0] = dc * g * i * (T(1) - i);
    dx[n] = dh * tanh_c * o * (T(1) - o);
    dx[2 * n] = dc * in<T>(args.c_before)[t] * f * (T(1) - f);
    dx[3 * n] = dc * i * (T(1) - g * g);
    out<T>(args.dc)[t] = dc * f;
  }
}

// z, r = sigmoid(x + h' R^T + bias); q and n by where the reset stands; y = (1 - z) n + z h'
template <typename T>
__device__ void gru_linear(const CellArguments& args) {
  const i64 n = args.hidden;
  for (i64 t = global_index(); t < args.batch * n; t += global_size()) {
    const i64 j = t % n, at = t / n * 3 * n + j;
    const auto pre = [&](int k) {
      return in<T>(args.product)[at + k * n] + in<T>(args.bias)[j + k * n];
    };
    const T *x = in<T>(args.x) + at, h = in<T>(args.h)[t];
    const T z = sigmoid(x[0] + pre(0)), r = sigmoid(x[n] + pre(1)), q = pre(2);
    const T fresh = tanh(x[2 * n] + r * q);
    T* gates = out<T>(args.gates) + t / n * 4 * n + j;
    gates[0] = z;
    gates[n] = r;
    gates[2 * n] = fresh;
    gates[3 * n] = q;
    out<T>(args.y)[t] = (T(1) - z) * fresh + z * h;
  }
}

template <typename T>
__device__ void gru_reset(const CellArguments& args) {
  const i64 n = args.hidden;
  for (i64 t = global_index(); t < args.batch * n; t += global_size()) {
    const i64 j = t % n, at = t / n * 2 * n + j;
    const T* x = in<T>(args.x) + t / n * 3 * n + j;
    const T* product = in<T>(args.product) + at;
    const T z = sigmoid(x[0] + product[0] + in<T>(args.bias)[j]);
    const T r = sigmoid(x[n] + product[n] + in<T>(args.bias)[j + n]);
    const T q = r * in<T>(args.h)[t];
    T* gates = out<T>(args.gates) + t / n * 4 * n + j;
    gates[0] = z;
    gates[n] = r;
    gates[3 * n] = q;
    out<T>(args.q)[t] = q;
  }
}

template <typename T>
__device__ void gru_fresh(const CellArguments& args) {
  const i64 n = args.hidden;
  for (i64 t = global_index(); t < args.batch * n; t += global_size()) {
    const i64 j = t % n;
    T* gates = out<T>(args.gates) + t / n * 4 * n + j;
    const T fresh = tanh(in<T>(args.x)[t / n * 3 * n + 2 * n + j] + in<T>(args.product_n)[t] +
                         in<T>(args.bias)[j + 2 * n]);
    gates[2 * n] = fresh;
    out<T>(args.y)[t] = (T(1) - gates[0]) * fresh + gates[0] * in<T>(args.h)[t];
  }
}

template <typename T>
__device__ void gru_grad_fresh(const CellGradArguments& args) {
  const i64 n = args.hidden;
  for (i64 t = global_index(); t < args.batch * n; t += global_size()) {
    const i64 j = t % n;
    const T* gates = in<T>(args.gates) + t / n * 4 * n + j;
    const T z = gates[0], r = gates[n], fresh = gates[2 * n];
    const T dh = came_back<T>(args, t) + out<T>(args.through)[t];
    const T a = dh * (T(1) - z) * (T(1) - fresh * fresh);
    const T dz = dh * (in<T>(args.h)[t] - fresh) * z * (T(1) - z);
    T* dx = out<T>(args.dx) + t / n * 3 * n + j;
    dx[0] = dz;
    dx[2 * n] = a;
    out<T>(args.d_zr)[t / n * 2 * n + j] = dz;
    out<T>(args.d_n)[t] = args.linear ? a * r : a;
    out<T>(args.through)[t] = dh * z;
    if (args.linear) {
      const T dr = a * gates[3 * n] * r * (T(1) - r);
      dx[n] = dr;
      out<T>(args.d_zr)[t / n * 2 * n + n + j] = dr;
    } else {
      out<T>(args.q)[t] = gates[3 * n];
    }
  }
}

/// With the reset first: its gradient comes through q.
template <typename T>
__device__ void gru_grad_reset(const CellGradArguments& args) {
  const i64 n = args.hidden;
  for (i64 t = global_index(); t < args.batch * n; t += global_size()) {
    const i64 j = t % n;
    const T r = in<T>(args.gates)[t / n * 4 * n + n + j], dq = in<T>(args.dq)[t];
    const T dr = dq * in<T>(args.h)[t] * r * (T(1) - r);
    out<T>(args.dx)[t / n * 3 * n + n + j] = dr;
    out<T>(args.d_zr)[t / n * 2 * n + n + j] = dr;
    out<T>(args.through)[t] += dq * r;
  }
}

template <typename T>
__device__ void sum(const CellSumArguments& args) {
  for (i64 t = global_index(); t < args.size; t += global_size()) {
    T total = 0;
    for (int k = 0; k < 3; ++k) {
      if (args.terms[k] != nullptr) total += in<T>(args.terms[k])[t];
    }
    out<T>(args.out)[t] = total;
  }
}

}  // namespace

#define CELLS(T, suffix)                                                                       \
  TRAINRT_KERNEL(lstm_cell_##suffix, CellArguments) { lstm<T>(args); }                         \
  TRAINRT_KERNEL(lstm_cell_grad_##suffix, CellGradArguments) { lstm_grad<T>(args); }           \
  TRAINRT_KERNEL(gru_cell_linear_##suffix, CellArguments) { gru_linear<T>(args); }             \
  TRAINRT_KERNEL(gru_cell_reset_##suffix, CellArguments) { gru_reset<T>(args); }               \
  TRAINRT_KERNEL(gru_cell_fresh_##suffix, CellArguments) { gru_fresh<T>(args); }               \
  TRAINRT_KERNEL(gru_cell_grad_fresh_##suffix, CellGradArguments) { gru_grad_fresh<T>(args); } \
  TRAINRT_KERNEL(gru_cell_grad_reset_##suffix, CellGradArguments) { gru_grad_reset<T>(args); } \
  TRAINRT_KERNEL(cell_sum_##suffix, CellSumArguments) { sum<T>(args); }

CELLS(float, f32)
CELLS(double, f64)

}  // namespace trainrt::cuda
