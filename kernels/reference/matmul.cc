#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

struct MatMulPlan {
  StridedLoop batch;  // a, b, result; in matrices' offsets
  int64_t batches, m, n, k;
  int64_t a_row, a_column, b_row, b_column;  // strides of the operands, transposition included
  bool bias, relu;
};

template <typename T>
void matmul(const MatMulPlan& p, const KernelArgs& args) {
  const int64_t pieces = div_up(p.n, kBlock), tasks = p.batches * p.m * pieces;
#pragma omp parallel for schedule(static) if (tasks * kBlock * p.k > kParallel)
  for (int64_t t = 0; t < tasks; ++t) {
    const int64_t matrix = t / pieces / p.m, i = t / pieces % p.m, begin = t % pieces * kBlock;
    const int64_t width = std::min(kBlock, p.n - begin);
    const T* a = args.input<T>(0) + p.batch.offset(0, matrix) + i * p.a_row;
    const T* b = args.input<T>(1) + p.batch.offset(1, matrix) + begin * p.b_column;
    Wide<T> acc[kBlock] = {};
    if (p.b_column == 1) {
      for (int64_t k = 0; k < p.k; ++k) {
        const Wide<T> left = static_cast<Wide<T>>(a[k * p.a_column]);
        const T* right = b + k * p.b_row;
        for (int64_t j = 0; j < width; ++j) acc[j] += left * static_cast<Wide<T>>(right[j]);
      }
    } else {
      for (int64_t j = 0; j < width; ++j) {
        const T* right = b + j * p.b_column;
        for (int64_t k = 0; k < p.k; ++k) {
          acc[j] +=
              static_cast<Wide<T>>(a[k * p.a_column]) * static_cast<Wide<T>>(right[k * p.b_row]);
        }
      }
    }
    T* y = args.output<T>(0) + (matrix * p.m + i) * p.n + begin;
    for (int64_t j = 0; j < width; ++j) {
      if (p.bias) acc[j] += static_cast<Wide<T>>(args.input<T>(2)[begin + j]);
      y[j] = static_cast<T>(acc[j]);
      if (p.relu) y[j] = relu(y[j]);
    }
  }
}

/// Strides over the result's leading dims of the matrices of one operand.
std::vector<int64_t> batch_strides(const Shape& shape, std::span<const int64_t> batch) {
  std::vector<int64_t> strides = broadcast_strides(std::span(shape).first(shape.size() - 2), batch);
  for (int64_t& s : strides) s *= shape[shape.size() - 2] * shape[shape.size() - 1];
  return strides;
}

std::unique_ptr<Kernel> plan_matmul(const NodeView& node, Scratch&) {
  const MatMulAttrs& attrs = node.attr<MatMulAttrs>();
  const Shape &a = node.inputs[0].shape, &b = node.inputs[1].shape, &y = node.outputs[0].shape;
  const std::span<const int64_t> batch = std::span(y).first(y.size() - 2);
  const int64_t a_columns = a.back(), b_columns = b.back();
  MatMulPlan plan{StridedLoop(batch, {batch_strides(a, batch), batch_strides(b, batch)}),
                  element_count(batch),
                  y[y.size() - 2],
                  y.back(),
                  attrs.trans_a ? a[a.size() - 2] : a_columns,
                  attrs.trans_a ? 1 : a_columns,
                  attrs.trans_a ? a_columns : 1,
                  attrs.trans_b ? 1 : b_columns,
                  attrs.trans_b ? b_columns : 1,
                  node.inputs.size() == 3,
                  attrs.relu};
  return bind_number(node.outputs[0].dtype, std::move(plan),
                     []<typename T>() { return matmul<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kMatMul, "reference", takes_numbers, plan_matmul},
};

}  // namespace

std::span<const KernelRow> reference_matmul_kernels() { return kRows; }

}  // namespace trainrt::reference
