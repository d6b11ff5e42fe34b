#include "kernels/reference/spatial.h"

namespace trainrt::reference {
namespace {

struct PoolPlan {
  Window window;
  int64_t planes;  // N * C
  bool count_include_pad, column_major;
};

PoolPlan pool_plan(const PoolAttrs& attrs, const Shape& x) {
  return {{last_three(x, 1, 2), last_three(attrs.output, 1), last_three(attrs.kernel, 1),
           last_three(attrs.strides, 1), last_three(attrs.dilations, 1),
           last_three(attrs.pads_begin, 0), last_three(attrs.pads_end, 0)},
          x[0] * x[1],
          attrs.count_include_pad,
          attrs.column_major};
}

/// Calls f(input offset within the plane) for the window's cells inside the input, in row-major
/// order.
template <typename F>
void for_each_cell(const Window& w, const Dims3& o, F f) {
  const TapRange r0 = taps_inside(w, 0, o[0], w.in[0]), r1 = taps_inside(w, 1, o[1], w.in[1]),
                 r2 = taps_inside(w, 2, o[2], w.in[2]);
  for (int64_t t0 = r0.first; t0 < r0.last; ++t0) {
    for (int64_t t1 = r1.first; t1 < r1.last; ++t1) {
      const int64_t row = (w.cell(0, o[0], t0) * w.in[1] + w.cell(1, o[1], t1)) * w.in[2];
      for (int64_t t2 = r2.first; t2 < r2.last; ++t2) f(row + w.cell(2, o[2], t2));
    }
  }
}

/// Calls f(plane, output offset within the plane, output position), planes in parallel.
template <typename F>
void for_each_output(const PoolPlan& p, F f) {
  const Window& w = p.window;
#pragma omp parallel for schedule(static) if (p.planes * volume(w.out) > kParallel / 8)
  for (int64_t plane = 0; plane < p.planes; ++plane) {
    int64_t at = 0;
    for (int64_t o0 = 0; o0 < w.out[0]; ++o0) {
      for (int64_t o1 = 0; o1 < w.out[1]; ++o1) {
        for (int64_t o2 = 0; o2 < w.out[2]; ++o2) f(plane, at++, Dims3{o0, o1, o2});
      }
    }
  }
}

/// Offset of the window's first maximum (NaN is the largest value), or -1 for a window without
/// cells.
template <typename T>
int64_t first_maximum(const Window& w, const Dims3& o, const T* x) {
  int64_t best = -1;
  for_each_cell(w, o, [&](int64_t i) {
    if (best < 0 || x[i] > x[best] || (x[i] != x[i] && x[best] == x[best])) best = i;
  });
  return best;
}

template <typename T>
void max_pool(const PoolPlan& p, const KernelArgs& args) {
  const int64_t in = volume(p.window.in), out = volume(p.window.out);
  for_each_output(p, [&](int64_t plane, int64_t at, const Dims3& o) {
    const T* x = args.input<T>(0) + plane * in;
    const int64_t best = first_maximum(p.window, o, x);
    args.output<T>(0)[plane * out + at] = best < 0 ? lowest<T>() : x[best];
  });
}

template <typename T>
void max_pool_indices(const PoolPlan& p, const KernelArgs& args) {
  const Dims3& dims = p.window.in;
  const int64_t in = volume(dims), out = volume(p.window.out);
  for_each_output(p, [&](int64_t plane, int64_t at, const Dims3& o) {
    int64_t best = first_maximum(p.window, o, args.input<T>(0) + plane * in);
    if (best >= 0 && p.column_major) {
      const int64_t i2 = best % dims[2], i1 = best / dims[2] % dims[1];
      const int64_t i0 = best / (dims[2] * dims[1]);
      best = i0 + dims[0] * (i1 + dims[1] * i2);
    }
    args.output<int64_t>(0)[plane * out + at] = best < 0 ? best : plane * in + best;
  });
}

template <typename T>
void max_pool_grad(const PoolPlan& p, const KernelArgs& args) {
  const int64_t in = volume(p.window.in), out = volume(p.window.out);
  T* dx = args.output<T>(0);
  zero_bytes(dx, static_cast<size_t>(p.planes * in) * sizeof(T));
  for_each_output(p, [&](int64_t plane, int64_t at, const Dims3& o) {
    const int64_t best = first_maximum(p.window, o, args.input<T>(1) + plane * in);
    if (best >= 0) dx[plane * in + best] += args.input<T>(0)[plane * out + at];
  });
}

/// Cells by which a mean divides.
double divisor(const PoolPlan& p, const Dims3& o) {
  const Window& w = p.window;
  double cells = 1;
  for (size_t d = 0; d < 3; ++d) {
    TapRange r = taps_inside(w, d, o[d], w.in[d]);
    if (p.count_include_pad) {
      // Shifted by pads_begin, the padded input is [0, pads_begin + in + pads_end).
      Window shifted = w;
      shifted.pad[d] = 0;
      r = taps_inside(shifted, d, o[d], w.pad[d] + w.in[d] + w.pad_end[d]);
    }
    cells *= static_cast<double>(r.last - r.first);
  }
  return cells;
}

template <typename T>
void average_pool(const PoolPlan& p, const KernelArgs& args) {
  const int64_t in = volume(p.window.in), out = volume(p.window.out);
  for_each_output(p, [&](int64_t plane, int64_t at, const Dims3& o) {
    const T* x = args.input<T>(0) + plane * in;
    double sum = 0;
    for_each_cell(p.window, o, [&](int64_t i) { sum += x[i]; });
    args.output<T>(0)[plane * out + at] = static_cast<T>(sum / divisor(p, o));
  });
}

template <typename T>
void average_pool_grad(const PoolPlan& p, const KernelArgs& args) {
  const int64_t in = volume(p.window.in), out = volume(p.window.out);
  T* dx = args.output<T>(0);
  zero_bytes(dx, static_cast<size_t>(p.planes * in) * sizeof(T));
  for_each_output(p, [&](int64_t plane, int64_t at, const Dims3& o) {
    const T share = static_cast<T>(args.input<T>(0)[plane * out + at] / divisor(p, o));
    for_each_cell(p.window, o, [&](int64_t i) { dx[plane * in + i] += share; });
  });
}

std::unique_ptr<Kernel> plan_max_pool(const NodeView& node, Scratch&) {
  return bind_number(node.inputs[0].dtype, pool_plan(node.attr<PoolAttrs>(), node.inputs[0].shape),
                     []<typename T>() { return max_pool<T>; });
}

std::unique_ptr<Kernel> plan_max_pool_indices(const NodeView& node, Scratch&) {
  return bind_number(node.inputs[0].dtype, pool_plan(node.attr<PoolAttrs>(), node.inputs[0].shape),
                     []<typename T>() { return max_pool_indices<T>; });
}

std::unique_ptr<Kernel> plan_max_pool_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, pool_plan(node.attr<PoolAttrs>(), node.outputs[0].shape),
                    []<typename T>() { return max_pool_grad<T>; });
}

std::unique_ptr<Kernel> plan_average_pool(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, pool_plan(node.attr<PoolAttrs>(), node.inputs[0].shape),
                    []<typename T>() { return average_pool<T>; });
}

std::unique_ptr<Kernel> plan_average_pool_grad(const NodeView& node, Scratch&) {
  return bind_float(node.outputs[0].dtype, pool_plan(node.attr<PoolAttrs>(), node.outputs[0].shape),
                    []<typename T>() { return average_pool_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kMaxPool, "reference", takes_numbers, plan_max_pool},
    {Op::kMaxPoolIndices, "reference", takes_numbers, plan_max_pool_indices},
    {Op::kMaxPoolGrad, "reference", takes_floats, plan_max_pool_grad},
    {Op::kAveragePool, "reference", takes_floats, plan_average_pool},
    {Op::kAveragePoolGrad, "reference", takes_floats, plan_average_pool_grad},
};

}  // namespace

std::span<const KernelRow> reference_pool_kernels() { return kRows; }

}  // namespace trainrt::reference
