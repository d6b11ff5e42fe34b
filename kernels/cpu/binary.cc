// Elementwise ops with two or three operands and NumPy broadcasting.
#include <algorithm>

#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {
namespace {

bool one_shape(const NodeView& node) {
  const Shape& shape = node.outputs[0].shape;
  return node.inputs[0].shape == shape && node.inputs[1].shape == shape;
}

Support rank_fits(const NodeView& node) {
  return node.outputs[0].rank() <= kMaxLoopRank ? Support::yes()
                                                : Support::no("takes tensors up to rank 8");
}

/// Output first, then the inputs.
template <size_t N>
StridedLoop<N> make_loop(const NodeView& node) {
  const Shape& shape = node.outputs[0].shape;
  std::array<std::vector<int64_t>, N> strides;
  strides[0] = dense_strides(shape);
  for (size_t k = 1; k < N; ++k) strides[k] = broadcast_strides(node.inputs[k - 1].shape, shape);
  return StridedLoop<N>(shape, strides);
}

/// Calls body(offsets, count) for runs along the inner dim, in parallel.
template <size_t N, typename Body>
void for_each_run(const StridedLoop<N>& loop, const Body& body) {
  const int64_t rows = loop.outer(), inner = loop.inner();
  if (loop.total() == 0) return;
  if (rows >= 4 * cpu_threads() || inner < kParallelElements) {
    parallel_items(rows, inner, [&](int64_t begin, int64_t end) {
      auto cursor = loop.at(begin);
      std::array<int64_t, N> at;
      for (int64_t r = begin; r < end; ++r, cursor.next()) {
        for (size_t k = 0; k < N; ++k) at[k] = cursor.offset(k);
        body(at, inner);
      }
    });
    return;
  }
  auto cursor = loop.at(0);
  for (int64_t r = 0; r < rows; ++r, cursor.next()) {
    parallel_ranges(inner, kParallelElements / 2, [&](int64_t begin, int64_t end) {
      std::array<int64_t, N> at;
      for (size_t k = 0; k < N; ++k) at[k] = cursor.offset(k) + begin * loop.inner_stride(k);
      body(at, end - begin);
    });
  }
}

template <size_t N>
Operands moving(const StridedLoop<N>& loop, size_t first) {
  const bool a = loop.inner_stride(first) != 0, b = loop.inner_stride(first + 1) != 0;
  return a && b ? Operands::kBoth : b ? Operands::kSecond : Operands::kFirst;
}

Support takes_binary(const NodeView& node) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  for (const auto list : {node.inputs, node.outputs}) {
    for (const TensorType& t : list) {
      if (is_bf16(t) && !one_shape(node)) return Support::no("broadcasts no bfloat16");
    }
  }
  return rank_fits(node);
}

/// Operands of one shape, some of them bfloat16.
std::unique_ptr<Kernel> plan_pieces(const NodeView& node, BinaryLoop f, float lo, float hi) {
  const int64_t total = node.outputs[0].size();
  const bool a_bf16 = is_bf16(node.inputs[0]), b_bf16 = is_bf16(node.inputs[1]),
             y_bf16 = is_bf16(node.outputs[0]);
  return make_kernel([=](const KernelArgs& args) {
    const FloatInput a(args.in[0], a_bf16), b(args.in[1], b_bf16);
    const FloatOutput y(args.out[0], y_bf16);
    parallel_ranges(total, kParallelElements / 2, [&](int64_t begin, int64_t end) {
      alignas(64) float buffers[3][kBf16Piece];
      for (int64_t i = begin; i < end; i += kBf16Piece) {
        const int64_t n = std::min(kBf16Piece, end - i);
        f(a.read(i, n, buffers[0]), b.read(i, n, buffers[1]), y.place(i, buffers[2]), n, lo, hi);
        y.write(i, n, buffers[2]);
      }
    });
  });
}

std::unique_ptr<Kernel> plan_binary(const NodeView& node, Scratch&) {
  const StridedLoop<3> loop = make_loop<3>(node);
  const BinaryLoop f = binary_loop(node.op, moving(loop, 1));
  float lo = 0, hi = 0;
  if (node.op == Op::kClipGrad) {
    lo = static_cast<float>(node.attr<ClipAttrs>().lo);
    hi = static_cast<float>(node.attr<ClipAttrs>().hi);
  }
  if (is_bf16(node.inputs[0]) || is_bf16(node.inputs[1]) || is_bf16(node.outputs[0])) {
    return plan_pieces(node, binary_loop(node.op, Operands::kBoth), lo, hi);
  }
  return make_kernel([=](const KernelArgs& args) {
    const float *a = args.input<float>(0), *b = args.input<float>(1);
    float* y = args.output<float>(0);
    for_each_run(loop, [&](const std::array<int64_t, 3>& at, int64_t n) {
      f(a + at[1], b + at[2], y + at[0], n, lo, hi);
    });
  });
}

Support takes_compare(const NodeView& node) {
  Support s = float_only(node.inputs);
  return s.ok ? rank_fits(node) : s;
}

std::unique_ptr<Kernel> plan_compare(const NodeView& node, Scratch&) {
  const StridedLoop<3> loop = make_loop<3>(node);
  const CompareLoop f = compare_loop(node.op, moving(loop, 1));
  return make_kernel([=](const KernelArgs& args) {
    const float *a = args.input<float>(0), *b = args.input<float>(1);
    uint8_t* y = args.output<uint8_t>(0);
    for_each_run(loop, [&](const std::array<int64_t, 3>& at, int64_t n) {
      f(a + at[1], b + at[2], y + at[0], n);
    });
  });
}

Support takes_bool(const NodeView& node) {
  for (const TensorType& t : node.inputs) {
    if (t.dtype != DType::kBool) return Support::no("takes bool");
  }
  return rank_fits(node);
}

template <typename F>
std::unique_ptr<Kernel> plan_bool(const NodeView& node, F f) {
  const StridedLoop<3> loop = make_loop<3>(node);
  return make_kernel([=](const KernelArgs& args) {
    const uint8_t *a = args.input<uint8_t>(0), *b = args.input<uint8_t>(1);
    uint8_t* y = args.output<uint8_t>(0);
    const int64_t sa = loop.inner_stride(1), sb = loop.inner_stride(2);
    for_each_run(loop, [&](const std::array<int64_t, 3>& at, int64_t n) {
      for (int64_t i = 0; i < n; ++i) y[at[0] + i] = f(a[at[1] + i * sa], b[at[2] + i * sb]);
    });
  });
}

std::unique_ptr<Kernel> plan_and(const NodeView& node, Scratch&) {
  return plan_bool(node, [](uint8_t a, uint8_t b) -> uint8_t { return a & b; });
}
std::unique_ptr<Kernel> plan_or(const NodeView& node, Scratch&) {
  return plan_bool(node, [](uint8_t a, uint8_t b) -> uint8_t { return a | b; });
}
std::unique_ptr<Kernel> plan_xor(const NodeView& node, Scratch&) {
  return plan_bool(node, [](uint8_t a, uint8_t b) -> uint8_t { return a ^ b; });
}

Support takes_where(const NodeView& node) {
  if (node.inputs[1].dtype != DType::kFloat32) return Support::no("takes float32 branches");
  return rank_fits(node);
}

std::unique_ptr<Kernel> plan_where(const NodeView& node, Scratch&) {
  const StridedLoop<4> loop = make_loop<4>(node);
  const bool move_c = loop.inner_stride(1) != 0 || loop.inner() == 1;
  const bool move_a = loop.inner_stride(2) != 0, move_b = loop.inner_stride(3) != 0;
  const WhereLoop f = where_loop(move_a, move_b);
  return make_kernel([=](const KernelArgs& args) {
    const uint8_t* c = args.input<uint8_t>(0);
    const float *a = args.input<float>(1), *b = args.input<float>(2);
    float* y = args.output<float>(0);
    for_each_run(loop, [&](const std::array<int64_t, 4>& at, int64_t n) {
      if (move_c) return f(c + at[1], a + at[2], b + at[3], y + at[0], n);
      const float* from = c[at[1]] ? a + at[2] : b + at[3];
      const bool moves = c[at[1]] ? move_a : move_b;
      const float first = *from;
      for (int64_t i = 0; i < n; ++i) y[at[0] + i] = moves ? from[i] : first;
    });
  });
}

#define BINARY(NAME) \
  { Op::k##NAME, "cpu.elementwise", takes_binary, plan_binary, true, false, true }
// Not in place: a broadcast float operand can have as many bytes as the bool result.
#define COMPARE(NAME) \
  { Op::k##NAME, "cpu.elementwise", takes_compare, plan_compare, false }
constexpr KernelRow kRows[] = {
    BINARY(Add),
    BINARY(Sub),
    BINARY(Mul),
    BINARY(ChainMul),
    BINARY(ChainDiv),
    BINARY(Div),
    BINARY(Max),
    BINARY(Min),
    BINARY(Pow),
    BINARY(Mod),
    BINARY(Fmod),
    BINARY(ReluGrad),
    BINARY(ClipGrad),
    COMPARE(Equal),
    COMPARE(Less),
    COMPARE(LessEqual),
    COMPARE(Greater),
    COMPARE(GreaterEqual),
    {Op::kAnd, "cpu.elementwise", takes_bool, plan_and, true},
    {Op::kOr, "cpu.elementwise", takes_bool, plan_or, true},
    {Op::kXor, "cpu.elementwise", takes_bool, plan_xor, true},
    {Op::kWhere, "cpu.elementwise", takes_where, plan_where, true},
};
#undef BINARY
#undef COMPARE

}  // namespace

std::span<const KernelRow> binary_rows() { return kRows; }

}  // namespace trainrt
