// OptimizerUpdate and AssignAdd: one pass over parameter, gradient and slots. PyTorch's formulas.
#include <cmath>

#include "kernels/cpu/rows.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

#ifndef TRAINRT_KERNELS_CPU_OPTIMIZER_TYPES_
#define TRAINRT_KERNELS_CPU_OPTIMIZER_TYPES_
namespace trainrt {

struct UpdateArgs {
  const float *w, *g, *slot0, *slot1;
  float *w_out, *slot0_out, *slot1_out;
  float scale;        // of the gradient
  float decay;        // added to the gradient: decay w
  float shrink;       // w is multiplied by it first
  float rate;         // lr; Adam: lr / (1 - beta1^t)
  float keep0, add0;  // slot0 = keep0 slot0 + add0 g
  float keep1, add1;  // slot1 = keep1 slot1 + add1 g^2
  float root;         // Adam: 1 / sqrt(1 - beta2^t)
  float epsilon;
  float ahead;  // Nesterov: g + ahead slot0
};

}  // namespace trainrt
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trainrt {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

template <OptimizerKind K, typename Load, typename Store>
HWY_INLINE void step(const UpdateArgs& a, int64_t i, const Load& load, const Store& store) {
  const DF d;
  constexpr bool adam = K == OptimizerKind::kAdam || K == OptimizerKind::kAdamW;
  VF w = load(a.w + i), g = hn::Mul(load(a.g + i), hn::Set(d, a.scale));
  g = hn::MulAdd(hn::Set(d, a.decay), w, g);
  w = hn::Mul(w, hn::Set(d, a.shrink));
  if constexpr (adam) {
    const VF m = hn::MulAdd(hn::Set(d, a.keep0), load(a.slot0 + i), hn::Mul(hn::Set(d, a.add0), g));
    const VF v = hn::MulAdd(hn::Set(d, a.keep1), load(a.slot1 + i),
                            hn::Mul(hn::Mul(hn::Set(d, a.add1), g), g));
    store(m, a.slot0_out + i);
    store(v, a.slot1_out + i);
    const VF bottom = hn::MulAdd(hn::Sqrt(v), hn::Set(d, a.root), hn::Set(d, a.epsilon));
    g = hn::Div(m, bottom);
  } else if constexpr (K != OptimizerKind::kSgd) {
    // A first step has keep0 = 0: what the slot held then counts for nothing, NaN included.
    VF buffer = hn::Mul(hn::Set(d, a.add0), g);
    if (a.keep0 != 0) buffer = hn::MulAdd(hn::Set(d, a.keep0), load(a.slot0 + i), buffer);
    store(buffer, a.slot0_out + i);
    g = K == OptimizerKind::kNesterov ? hn::MulAdd(hn::Set(d, a.ahead), buffer, g) : buffer;
  }
  store(hn::NegMulAdd(hn::Set(d, a.rate), g, w), a.w_out + i);
}

template <OptimizerKind K>
void update(const UpdateArgs& a, int64_t begin, int64_t end) {
  const DF d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    step<K>(
        a, i, [d](const float* p) HWY_ATTR { return hn::LoadU(d, p); },
        [d](VF v, float* p) HWY_ATTR { hn::StoreU(v, d, p); });
  }
  if (i < end) {
    const size_t n = static_cast<size_t>(end - i);
    step<K>(
        a, i, [d, n](const float* p) HWY_ATTR { return hn::LoadN(d, p, n); },
        [d, n](VF v, float* p) HWY_ATTR { hn::StoreN(v, d, p, n); });
  }
}

}  // namespace

void run_update(OptimizerKind kind, const UpdateArgs& a, int64_t begin, int64_t end) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return update<OptimizerKind::kSgd>(a, begin, end);
    case OptimizerKind::kMomentum:
      return update<OptimizerKind::kMomentum>(a, begin, end);
    case OptimizerKind::kNesterov:
      return update<OptimizerKind::kNesterov>(a, begin, end);
    case OptimizerKind::kAdam:
      return update<OptimizerKind::kAdam>(a, begin, end);
    case OptimizerKind::kAdamW:
      return update<OptimizerKind::kAdamW>(a, begin, end);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace trainrt
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trainrt {

HWY_EXPORT(run_update);

namespace {

UpdateArgs make_args(const OptimizerAttrs& o, const KernelArgs& args) {
  const double lr = args.input<double>(2)[0], step = args.input<double>(2)[1];
  const bool adam = o.kind == OptimizerKind::kAdam || o.kind == OptimizerKind::kAdamW;
  const bool momentum = !adam && o.kind != OptimizerKind::kSgd;
  const bool decoupled = o.kind == OptimizerKind::kAdamW, first = step <= 1;
  UpdateArgs a{};
  a.w = args.input<float>(0);
  a.g = args.input<float>(1);
  a.w_out = args.output<float>(0);
  if (adam || momentum) {
    a.slot0 = args.input<float>(4);
    a.slot0_out = args.output<float>(1);
  }
  if (adam) {
    a.slot1 = args.input<float>(5);
    a.slot1_out = args.output<float>(2);
  }
  a.scale = *args.input<float>(3);
  a.decay = static_cast<float>(decoupled ? 0 : o.weight_decay);
  a.shrink = static_cast<float>(decoupled ? 1 - lr * o.weight_decay : 1);
  a.rate = static_cast<float>(adam ? lr / (1 - std::pow(o.beta1, step)) : lr);
  a.keep0 = static_cast<float>(adam ? o.beta1 : first ? 0 : o.momentum);
  a.add0 = static_cast<float>(adam ? 1 - o.beta1 : first ? 1 : 1 - o.dampening);
  a.keep1 = static_cast<float>(o.beta2);
  a.add1 = static_cast<float>(1 - o.beta2);
  a.root = static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, step)));
  a.epsilon = static_cast<float>(o.epsilon);
  a.ahead = static_cast<float>(o.momentum);
  return a;
}

Support takes_update(const NodeView& node) { return float_only(node.outputs); }

std::unique_ptr<Kernel> plan_update(const NodeView& node, Scratch&) {
  const int64_t n = node.outputs[0].size();
  const auto run = HWY_DYNAMIC_POINTER(run_update);
  return make_kernel([=, o = node.attr<OptimizerAttrs>()](const KernelArgs& args) {
    const UpdateArgs a = make_args(o, args);
    parallel_ranges(n, kParallelElements / 2,
                    [&](int64_t begin, int64_t end) { run(o.kind, a, begin, end); });
  });
}

std::unique_ptr<Kernel> plan_assign_add(const NodeView& node, Scratch&) {
  const int64_t n = node.outputs[0].size();
  return make_kernel([n](const KernelArgs& args) {
    const float *a = args.input<float>(0), *b = args.input<float>(1);
    float* y = args.output<float>(0);
    parallel_ranges(n, kParallelElements / 2, [&](int64_t begin, int64_t end) {
      vector_ops().add(a + begin, b + begin, y + begin, end - begin);
    });
  });
}

constexpr KernelRow kRows[] = {
    {Op::kOptimizerUpdate, "cpu.optimizer", takes_update, plan_update, false},
    {Op::kAssignAdd, "cpu.elementwise", takes_update, plan_assign_add, false},
};

}  // namespace

std::span<const KernelRow> optimizer_rows() { return kRows; }

}  // namespace trainrt
#endif
