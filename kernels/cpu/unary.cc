// Elementwise ops with one operand.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {
namespace {

Support takes_unary(const NodeView& node) { return all_float(node); }

std::unique_ptr<Kernel> plan_unary(const NodeView& node, Scratch&) {
  const UnaryLoop loop = unary_loop(node.op);
  const int64_t n = node.outputs[0].size();
  float lo = 0, hi = 0;
  if (node.op == Op::kClip) {
    lo = static_cast<float>(node.attr<ClipAttrs>().lo);
    hi = static_cast<float>(node.attr<ClipAttrs>().hi);
  }
  return make_kernel([=](const KernelArgs& args) {
    const float* x = args.input<float>(0);
    float* y = args.output<float>(0);
    parallel_ranges(n, kParallelElements / 2, [&](int64_t begin, int64_t end) {
      loop(x + begin, y + begin, end - begin, lo, hi);
    });
  });
}

Support takes_is_nan(const NodeView& node) { return float_only(node.inputs); }

std::unique_ptr<Kernel> plan_is_nan(const NodeView& node, Scratch&) {
  const int64_t n = node.outputs[0].size();
  return make_kernel([=](const KernelArgs& args) {
    const float* x = args.input<float>(0);
    uint8_t* y = args.output<uint8_t>(0);
    parallel_ranges(n, kParallelElements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = x[i] != x[i];
    });
  });
}

Support takes_not(const NodeView& node) {
  return node.inputs[0].dtype == DType::kBool ? Support::yes() : Support::no("takes bool");
}

std::unique_ptr<Kernel> plan_not(const NodeView& node, Scratch&) {
  const int64_t n = node.outputs[0].size();
  return make_kernel([=](const KernelArgs& args) {
    const uint8_t* x = args.input<uint8_t>(0);
    uint8_t* y = args.output<uint8_t>(0);
    parallel_ranges(n, 4 * kParallelElements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = !x[i];
    });
  });
}

#define UNARY(NAME) \
  { Op::k##NAME, "cpu.elementwise", takes_unary, plan_unary, true }
constexpr KernelRow kRows[] = {
    UNARY(Neg),
    UNARY(Abs),
    UNARY(Sign),
    UNARY(Exp),
    UNARY(Log),
    UNARY(Sqrt),
    UNARY(Sin),
    UNARY(Cos),
    UNARY(Tan),
    UNARY(Asin),
    UNARY(Acos),
    UNARY(Atan),
    UNARY(Sinh),
    UNARY(Cosh),
    UNARY(Asinh),
    UNARY(Acosh),
    UNARY(Atanh),
    UNARY(Tanh),
    UNARY(Sigmoid),
    UNARY(Softplus),
    UNARY(Erf),
    UNARY(Relu),
    UNARY(Floor),
    UNARY(Ceil),
    UNARY(Round),
    UNARY(Clip),
    UNARY(Reciprocal),
    {Op::kIsNaN, "cpu.elementwise", takes_is_nan, plan_is_nan, false},
    {Op::kNot, "cpu.elementwise", takes_not, plan_not, true},
};
#undef UNARY

}  // namespace

void relu_in_place(void* x, bool bf16, int64_t n) {
  const UnaryLoop loop = unary_loop(Op::kRelu);
  const FloatInput in(x, bf16);
  const FloatOutput out(x, bf16);
  parallel_ranges(n, kParallelElements / 2, [&](int64_t begin, int64_t end) {
    alignas(64) float buffer[kBf16Piece];
    for (int64_t i = begin; i < end; i += kBf16Piece) {
      const int64_t count = std::min(kBf16Piece, end - i);
      loop(in.read(i, count, buffer), out.place(i, buffer), count, 0, 0);
      out.write(i, count, buffer);
    }
  });
}

std::span<const KernelRow> unary_rows() { return kRows; }

}  // namespace trainrt
