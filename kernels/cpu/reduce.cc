// ReduceSum, ReduceMean, ReduceMax, ReduceMin over any set of axes. Adjacent axes of a kind merge;
// the innermost group decides whether rows are reduced or columns. How the work is cut depends on
// the shape only, so results do not depend on the number of threads.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

namespace trainrt {
namespace {

struct Reducer {
  double (*row)(const float*, int64_t);
  void (*columns)(const float*, int64_t, int64_t, float*, int64_t);
  void (*rows2)(const float*, const float*, float*, int64_t);
  double (*join)(double, double);
  double start;
};

Reducer reducer_of(Op op) {
  const VectorOps& v = vector_ops();
  switch (op) {
    case Op::kReduceMax:
      return {v.max, v.column_max, v.max2,
              [](double a, double b) { return a > b || a != a ? a : b; }, -INFINITY};
    case Op::kReduceMin:
      return {v.min, v.column_min, v.min2,
              [](double a, double b) { return a < b || a != a ? a : b; }, INFINITY};
    default:
      return {v.sum, v.column_sum, v.add, [](double a, double b) { return a + b; }, 0.0};
  }
}

struct Dim {
  int64_t size, stride;
  bool reduced;
};

/// Dims of size 1 gone, neighbours of a kind merged.
std::vector<Dim> merge_dims(const Shape& shape, const std::vector<int64_t>& axes) {
  std::vector<Dim> dims;
  const std::vector<int64_t> strides = dense_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    if (!dims.empty() && dims.back().reduced == reduced) {
      dims.back().size *= shape[d];
      dims.back().stride = strides[d];
    } else {
      dims.push_back({shape[d], strides[d], reduced});
    }
  }
  return dims;
}

/// The outer dims of one kind as a loop; the inner dim of StridedLoop is a dummy of size 1.
StridedLoop<1> outer_loop(const std::vector<Dim>& dims, bool reduced) {
  Shape shape;
  std::vector<int64_t> strides;
  for (const Dim& d : dims) {
    if (d.reduced != reduced) continue;
    shape.push_back(d.size);
    strides.push_back(d.stride);
  }
  return StridedLoop<1>(shape, {strides});
}

int64_t offset_of(const StridedLoop<1>& loop, int64_t position) {
  const auto cursor = loop.at(position / loop.inner());
  return cursor.offset(0) + position % loop.inner() * loop.inner_stride(0);
}

/// The innermost group is reduced: out[k] = join over r, chunk of row(x + k + r + chunk).
class RowReduce final : public Kernel {
 public:
  RowReduce(Op op, std::vector<Dim> dims, double factor, Scratch& scratch)
      : reducer_(reducer_of(op)), factor_(factor), width_(dims.back().size) {
    dims.pop_back();
    kept_ = outer_loop(dims, false);
    reduced_ = outer_loop(dims, true);
    if (kept_.total() < 16)
      chunk_ = std::min<int64_t>(width_, 32768);
    else
      chunk_ = width_;
    chunks_ = (width_ + chunk_ - 1) / chunk_;
    per_output_ = reduced_.total() * chunks_;
    if (kept_.total() < 16 && per_output_ > 1) {
      split_ = true;
      partial_ = book(scratch, sizeof(double) * static_cast<size_t>(kept_.total() * per_output_));
    }
  }

  void run(const KernelArgs& args) const override {
    const float* x = args.input<float>(0);
    float* y = args.output<float>(0);
    if (!split_) {
      parallel_items(kept_.total(), per_output_ * width_, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          const float* base = x + offset_of(kept_, k);
          double acc = reducer_.start;
          for (int64_t r = 0; r < per_output_; ++r) {
            acc = reducer_.join(acc, reducer_.row(base + offset_of(reduced_, r), width_));
          }
          y[k] = static_cast<float>(acc * factor_);
        }
      });
      return;
    }
    double* partial = scratch_at<double>(args, partial_);
    parallel_items(kept_.total() * per_output_, chunk_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = i / per_output_, r = i % per_output_ / chunks_, c = i % chunks_;
        const float* row = x + offset_of(kept_, k) + offset_of(reduced_, r) + c * chunk_;
        partial[i] = reducer_.row(row, std::min(chunk_, width_ - c * chunk_));
      }
    });
    for (int64_t k = 0; k < kept_.total(); ++k) {
      double acc = reducer_.start;
      for (int64_t r = 0; r < per_output_; ++r) {
        acc = reducer_.join(acc, partial[k * per_output_ + r]);
      }
      y[k] = static_cast<float>(acc * factor_);
    }
  }

 private:
  Reducer reducer_;
  double factor_;
  int64_t width_, chunk_ = 0, chunks_ = 1, per_output_ = 1;
  bool split_ = false;
  size_t partial_ = 0;
  StridedLoop<1> kept_, reduced_;
};

/// The innermost group is kept: columns of the innermost reduced dim, joined over the other reduced
/// dims. Many rows are cut into chunks whose results lie in scratch.
class ColumnReduce final : public Kernel {
 public:
  static constexpr int64_t kPanel = 256;
  static constexpr int64_t kBf16Rows = 32;  // converted at a time

  ColumnReduce(Op op, std::vector<Dim> dims, double factor, bool bf16, Scratch& scratch)
      : reducer_(reducer_of(op)),
        factor_(static_cast<float>(factor)),
        bf16_(bf16),
        width_(dims.back().size) {
    dims.pop_back();
    rows_ = dims.back().size;
    stride_ = dims.back().stride;
    dims.pop_back();
    kept_ = outer_loop(dims, false);
    reduced_ = outer_loop(dims, true);
    panels_ = (width_ + kPanel - 1) / kPanel;
    chunk_ = rows_;
    if (kept_.total() * panels_ < 16) chunk_ = std::clamp<int64_t>(rows_ / 16, 64, 2048);
    chunks_ = (rows_ + chunk_ - 1) / chunk_;
    parts_ = chunks_ * reduced_.total();
    if (parts_ > 1) {
      partial_ =
          book(scratch, sizeof(float) * static_cast<size_t>(parts_ * kept_.total() * width_));
    }
  }

  void run(const KernelArgs& args) const override {
    float* y = args.output<float>(0);
    float* to = parts_ > 1 ? scratch_at<float>(args, partial_) : y;
    const int64_t outputs = kept_.total() * width_;
    parallel_items(parts_ * kept_.total() * panels_, chunk_ * std::min(width_, kPanel),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t panel = i % panels_, k = i / panels_ % kept_.total(),
                                     part = i / panels_ / kept_.total(), c = part % chunks_;
                       const int64_t from = offset_of(kept_, k) +
                                            offset_of(reduced_, part / chunks_) +
                                            c * chunk_ * stride_ + panel * kPanel;
                       columns(args, from, std::min(chunk_, rows_ - c * chunk_),
                               to + part * outputs + k * width_ + panel * kPanel,
                               std::min(kPanel, width_ - panel * kPanel));
                     }
                   });
    if (parts_ > 1) {
      parallel_items(
          (outputs + kPanel - 1) / kPanel, parts_ * kPanel, [&](int64_t begin, int64_t end) {
            const int64_t from = begin * kPanel, n = std::min(end * kPanel, outputs) - from;
            reducer_.columns(to + from, parts_, outputs, y + from, n);
          });
    }
    if (factor_ != 1.0f) {
      parallel_ranges(outputs, kParallelElements, [&](int64_t begin, int64_t end) {
        vector_ops().affine(y + begin, factor_, 0.0f, y + begin, end - begin);
      });
    }
  }

 private:
  void columns(const KernelArgs& args, int64_t from, int64_t rows, float* to, int64_t n) const {
    if (!bf16_) return reducer_.columns(args.input<float>(0) + from, rows, stride_, to, n);
    alignas(64) float buffer[kBf16Rows * kPanel], part[kPanel];
    for (int64_t first = 0; first < rows; first += kBf16Rows) {
      const int64_t count = std::min(kBf16Rows, rows - first);
      const uint16_t* x = args.input<uint16_t>(0) + from + first * stride_;
      for (int64_t r = 0; r < count; ++r) from_bf16(x + r * stride_, buffer + r * n, n);
      reducer_.columns(buffer, count, n, first == 0 ? to : part, n);
      if (first > 0) reducer_.rows2(to, part, to, n);
    }
  }

  Reducer reducer_;
  float factor_;
  bool bf16_;
  int64_t width_, rows_ = 1, stride_ = 0, panels_ = 1, chunk_ = 1, chunks_ = 1, parts_ = 1;
  size_t partial_ = 0;
  StridedLoop<1> kept_, reduced_;
};

Support takes_reduce(const NodeView& node) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  if (node.inputs[0].rank() > kMaxLoopRank) return Support::no("takes tensors up to rank 8");
  if (node.inputs[0].size() == 0) return Support::no("takes no empty operand");
  if (is_bf16(node.outputs[0])) return Support::no("gives float32");
  if (is_bf16(node.inputs[0])) {
    const auto dims = merge_dims(node.inputs[0].shape, node.attr<ReduceAttrs>().axes);
    const bool columns = dims.size() > 1 && !dims.back().reduced;
    if (!columns) return Support::no("takes columns of bfloat16, not rows");
  }
  return s;
}

std::unique_ptr<Kernel> plan_reduce(const NodeView& node, Scratch& scratch) {
  const std::vector<Dim> dims = merge_dims(node.inputs[0].shape, node.attr<ReduceAttrs>().axes);
  const int64_t count = node.inputs[0].size() / node.outputs[0].size();
  const double factor = node.op == Op::kReduceMean ? 1.0 / static_cast<double>(count) : 1.0;
  if (count == 1) {
    const int64_t n = node.outputs[0].size();
    return make_kernel([n](const KernelArgs& args) {
      const float* x = args.input<float>(0);
      std::copy(x, x + n, args.output<float>(0));
    });
  }
  if (dims.back().reduced) return std::make_unique<RowReduce>(node.op, dims, factor, scratch);
  return std::make_unique<ColumnReduce>(node.op, dims, factor, is_bf16(node.inputs[0]), scratch);
}

constexpr KernelRow kRows[] = {
    {Op::kReduceSum, "cpu.reduce", takes_reduce, plan_reduce, false, false, true},
    {Op::kReduceMean, "cpu.reduce", takes_reduce, plan_reduce, false, false, true},
    {Op::kReduceMax, "cpu.reduce", takes_reduce, plan_reduce, false, false, true},
    {Op::kReduceMin, "cpu.reduce", takes_reduce, plan_reduce, false, false, true},
};

}  // namespace

std::span<const KernelRow> reduce_rows() { return kRows; }

}  // namespace trainrt
