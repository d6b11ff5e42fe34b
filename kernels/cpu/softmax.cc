// Softmax and LogSoftmax with their gradients. Along the last axis a row is a run of memory; along
// another axis a panel of columns is worked on at a time.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

namespace trainrt {
namespace {

constexpr int64_t kPanel = 256;

struct AxisShape {
  int64_t outer, size, inner;
};

AxisShape axis_shape(const NodeView& node) {
  const Shape& shape = node.outputs[0].shape;
  const size_t axis = static_cast<size_t>(node.attr<AxisAttrs>().axis);
  return {size_of(shape, 0, axis), shape[axis], size_of(shape, axis + 1, shape.size())};
}

Support takes_softmax(const NodeView& node) {
  Support s = all_float(node);
  return s.ok && node.outputs[0].rank() == 0 ? Support::no("takes rank 1 or more") : s;
}

/// row(offset) for each run along the last axis, or panel(offset, columns) for panels of columns.
template <typename Row, typename Panel>
void for_each_slice(const AxisShape& s, const Row& row, const Panel& panel) {
  if (s.outer * s.size * s.inner == 0) return;
  if (s.inner == 1) {
    parallel_items(s.outer, 2 * s.size, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) row(i * s.size);
    });
    return;
  }
  const int64_t panels = (s.inner + kPanel - 1) / kPanel;
  parallel_items(s.outer * panels, 2 * s.size * std::min(s.inner, kPanel),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t at = i % panels * kPanel;
                     panel(i / panels * s.size * s.inner + at, std::min(kPanel, s.inner - at));
                   }
                 });
}

std::unique_ptr<Kernel> plan_softmax(const NodeView& node, Scratch&) {
  return make_kernel([s = axis_shape(node)](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float* x = args.input<float>(0);
    float* y = args.output<float>(0);
    for_each_slice(
        s,
        [&](int64_t at) {
          const float shift = static_cast<float>(v.max(x + at, s.size));
          const double sum = v.exp_store(x + at, shift, y + at, s.size);
          v.affine(y + at, static_cast<float>(1.0 / sum), 0.0f, y + at, s.size);
        },
        [&](int64_t at, int64_t n) {
          float shift[kPanel], sum[kPanel] = {};
          v.column_max(x + at, s.size, s.inner, shift, n);
          for (int64_t c = 0; c < s.size; ++c) {
            v.exp_rows(x + at + c * s.inner, shift, y + at + c * s.inner, sum, n);
          }
          for (int64_t j = 0; j < n; ++j) sum[j] = 1.0f / sum[j];
          for (int64_t c = 0; c < s.size; ++c) {
            v.multiply(y + at + c * s.inner, sum, y + at + c * s.inner, n);
          }
        });
  });
}

std::unique_ptr<Kernel> plan_log_softmax(const NodeView& node, Scratch&) {
  return make_kernel([s = axis_shape(node)](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float* x = args.input<float>(0);
    float* y = args.output<float>(0);
    for_each_slice(
        s,
        [&](int64_t at) {
          const float shift = static_cast<float>(v.max(x + at, s.size));
          const float lse = static_cast<float>(std::log(v.exp_sum(x + at, shift, s.size)));
          v.affine(x + at, 1.0f, -shift, y + at, s.size);
          v.affine(y + at, 1.0f, -lse, y + at, s.size);
        },
        [&](int64_t at, int64_t n) {
          float shift[kPanel], sum[kPanel] = {}, one[kPanel];
          v.column_max(x + at, s.size, s.inner, shift, n);
          for (int64_t c = 0; c < s.size; ++c) {
            v.exp_rows(x + at + c * s.inner, shift, nullptr, sum, n);
          }
          for (int64_t j = 0; j < n; ++j) {
            one[j] = 1.0f;
            shift[j] = -shift[j];
            sum[j] = -std::log(sum[j]);
          }
          for (int64_t c = 0; c < s.size; ++c) {
            float* out = y + at + c * s.inner;
            v.affine_rows(x + at + c * s.inner, one, shift, out, n);
            v.affine_rows(out, one, sum, out, n);
          }
        });
  });
}

/// dx = (dy - sum dy y) y
std::unique_ptr<Kernel> plan_softmax_grad(const NodeView& node, Scratch&) {
  return make_kernel([s = axis_shape(node)](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float *dy = args.input<float>(0), *y = args.input<float>(1);
    float* dx = args.output<float>(0);
    for_each_slice(
        s,
        [&](int64_t at) {
          const float d = static_cast<float>(v.dot(dy + at, y + at, s.size));
          v.softmax_grad(dy + at, y + at, d, dx + at, s.size);
        },
        [&](int64_t at, int64_t n) {
          float d[kPanel];
          v.column_dot(dy + at, y + at, s.size, s.inner, d, n);
          for (int64_t c = 0; c < s.size; ++c) {
            const int64_t i = at + c * s.inner;
            v.softmax_grad_rows(dy + i, y + i, d, dx + i, n);
          }
        });
  });
}

/// dx = dy - e^y sum dy
std::unique_ptr<Kernel> plan_log_softmax_grad(const NodeView& node, Scratch&) {
  return make_kernel([s = axis_shape(node)](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float *dy = args.input<float>(0), *y = args.input<float>(1);
    float* dx = args.output<float>(0);
    for_each_slice(
        s,
        [&](int64_t at) {
          const float d = static_cast<float>(v.sum(dy + at, s.size));
          v.log_softmax_grad(dy + at, y + at, d, dx + at, s.size);
        },
        [&](int64_t at, int64_t n) {
          float d[kPanel];
          v.column_sum(dy + at, s.size, s.inner, d, n);
          for (int64_t c = 0; c < s.size; ++c) {
            const int64_t i = at + c * s.inner;
            v.log_softmax_grad_rows(dy + i, y + i, d, dx + i, n);
          }
        });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kSoftmax, "cpu.softmax", takes_softmax, plan_softmax, true},
    {Op::kLogSoftmax, "cpu.softmax", takes_softmax, plan_log_softmax, true},
    {Op::kSoftmaxGrad, "cpu.softmax", takes_softmax, plan_softmax_grad, true},
    {Op::kLogSoftmaxGrad, "cpu.softmax", takes_softmax, plan_log_softmax_grad, true},
};

}  // namespace

std::span<const KernelRow> softmax_rows() { return kRows; }

}  // namespace trainrt
