// Cross entropy of logits and its gradient, with the class axis last or in the middle (images).
#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr int64_t kPanel = 256;

struct LossShape {
  int64_t outer, classes, inner, ignored;
};

LossShape loss_shape(const NodeView& node, size_t logits) {
  const auto& attr = node.attr<LossAttrs>();
  const Shape& shape = node.inputs[logits].shape;
  const size_t axis = static_cast<size_t>(attr.class_axis);
  return {size_of(shape, 0, axis), shape[axis], size_of(shape, axis + 1, shape.size()),
          attr.ignore_index};
}

Support takes_loss(const NodeView& node) {
  for (size_t i = 0; i + 1 < node.inputs.size(); ++i) {
    if (node.inputs[i].dtype != DType::kFloat32) return Support::no("takes float32");
  }
  if (node.inputs.back().dtype != DType::kInt64) return Support::no("takes int64 class ids");
  return node.inputs[node.inputs.size() - 2].size() == 0 ? Support::no("takes no empty operand")
                                                         : Support::yes();
}

Support takes_loss_last(const NodeView& node) {
  const size_t logits = node.inputs.size() - 2;
  if (loss_shape(node, logits).inner != 1) return Support::no("takes classes along the last axis");
  return takes_loss(node);
}

/// Remembers a class id that is out of range; threads may race, any of them will do.
class BadId {
 public:
  bool check(int64_t id, int64_t classes) {
    if (id >= 0 && id < classes) return true;
    bad_.store(true, std::memory_order_relaxed);
    id_.store(id, std::memory_order_relaxed);
    return false;
  }
  void throw_if_any(int64_t classes) const {
    if (!bad_) return;
    throw Error(ErrorCode::kRuntime, "CrossEntropy: class id " + std::to_string(id_.load()) +
                                         " is not in [0, " + std::to_string(classes) +
                                         "); check the targets, or set ignore_index");
  }

 private:
  std::atomic<bool> bad_{false};
  std::atomic<int64_t> id_{0};
};

/// item(row) for class axis last, or panel(outer, first column, columns).
template <typename Panel>
void for_each_panel(const LossShape& s, const Panel& panel) {
  const int64_t panels = (s.inner + kPanel - 1) / kPanel;
  parallel_items(s.outer * panels, 2 * s.classes * std::min(s.inner, kPanel),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t at = i % panels * kPanel;
                     panel(i / panels, at, std::min(kPanel, s.inner - at));
                   }
                 });
}

/// loss = log sum e^(x - max) + max - x[id]
std::unique_ptr<Kernel> plan_loss(const NodeView& node, Scratch&) {
  return make_kernel([s = loss_shape(node, 0)](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float* x = args.input<float>(0);
    const int64_t* ids = args.input<int64_t>(1);
    float* loss = args.output<float>(0);
    BadId bad;
    if (s.inner == 1) {
      parallel_items(s.outer, 2 * s.classes, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t id = ids[r];
          loss[r] = 0;
          if (id == s.ignored || !bad.check(id, s.classes)) continue;
          const float* row = x + r * s.classes;
          const double shift = v.max(row, s.classes);
          const double sum = v.exp_sum(row, static_cast<float>(shift), s.classes);
          loss[r] = static_cast<float>(std::log(sum) + shift - static_cast<double>(row[id]));
        }
      });
    } else {
      for_each_panel(s, [&](int64_t o, int64_t at, int64_t n) {
        const float* from = x + o * s.classes * s.inner + at;
        float shift[kPanel], sum[kPanel] = {};
        v.column_max(from, s.classes, s.inner, shift, n);
        for (int64_t c = 0; c < s.classes; ++c) {
          v.exp_rows(from + c * s.inner, shift, nullptr, sum, n);
        }
        for (int64_t j = 0; j < n; ++j) {
          const int64_t r = o * s.inner + at + j, id = ids[r];
          const bool counts = id != s.ignored && bad.check(id, s.classes);
          loss[r] = counts ? std::log(sum[j]) + (shift[j] - from[id * s.inner + j]) : 0.0f;
        }
      });
    }
    bad.throw_if_any(s.classes);
  });
}

/// dx = dloss (softmax(x) - [class == id]); 0 where the position is ignored
std::unique_ptr<Kernel> plan_loss_grad(const NodeView& node, Scratch&) {
  return make_kernel([s = loss_shape(node, 1)](const KernelArgs& args) {
    const VectorOps& v = vector_ops();
    const float *dloss = args.input<float>(0), *x = args.input<float>(1);
    const int64_t* ids = args.input<int64_t>(2);
    float* dx = args.output<float>(0);
    BadId bad;
    if (s.inner == 1) {
      parallel_items(s.outer, 3 * s.classes, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          // Read first: with few classes dx may lie on the ids or on dloss.
          const int64_t id = ids[r];
          const float d = dloss[r], *row = x + r * s.classes;
          float* out = dx + r * s.classes;
          if (id == s.ignored || !bad.check(id, s.classes)) {
            std::fill(out, out + s.classes, 0.0f);
            continue;
          }
          const float shift = static_cast<float>(v.max(row, s.classes));
          const double sum = v.exp_store(row, shift, out, s.classes);
          v.affine(out, static_cast<float>(d / sum), 0.0f, out, s.classes);
          out[id] -= d;
        }
      });
    } else {
      for_each_panel(s, [&](int64_t o, int64_t at, int64_t n) {
        const int64_t first = o * s.classes * s.inner + at;
        float shift[kPanel], sum[kPanel] = {};
        v.column_max(x + first, s.classes, s.inner, shift, n);
        for (int64_t c = 0; c < s.classes; ++c) {
          v.exp_rows(x + first + c * s.inner, shift, nullptr, sum, n);
        }
        for (int64_t j = 0; j < n; ++j) {
          const int64_t r = o * s.inner + at + j;
          const bool counts = ids[r] != s.ignored && bad.check(ids[r], s.classes);
          sum[j] = counts ? dloss[r] / sum[j] : 0.0f;
        }
        for (int64_t c = 0; c < s.classes; ++c) {
          const int64_t i = first + c * s.inner;
          v.exp_scaled_rows(x + i, shift, sum, dx + i, n);
        }
        for (int64_t j = 0; j < n; ++j) {
          const int64_t r = o * s.inner + at + j, id = ids[r];
          if (id == s.ignored || id < 0 || id >= s.classes) {
            for (int64_t c = 0; c < s.classes; ++c) dx[first + c * s.inner + j] = 0.0f;
          } else {
            dx[first + id * s.inner + j] -= dloss[r];
          }
        }
      });
    }
    bad.throw_if_any(s.classes);
  });
}

// Only with the classes last may dx overwrite the ids (two classes) or dloss (one class).
constexpr KernelRow kRows[] = {
    {Op::kCrossEntropy, "cpu.cross_entropy", takes_loss, plan_loss, false},
    {Op::kCrossEntropyGrad, "cpu.cross_entropy", takes_loss_last, plan_loss_grad, true},
    {Op::kCrossEntropyGrad, "cpu.cross_entropy_spatial", takes_loss, plan_loss_grad, false},
};

}  // namespace

std::span<const KernelRow> cross_entropy_rows() { return kRows; }

}  // namespace trainrt
