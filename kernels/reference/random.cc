#include <cmath>
#include <numbers>

#include "kernels/philox.h"
#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

/// The generator of a node's stream in the step that rng = {seed, step} names.
Philox generator(const void* rng, int64_t stream) {
  const auto* key = static_cast<const int64_t*>(rng);
  return {static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]),
          static_cast<uint32_t>(stream)};
}

/// Calls f(block, words) for the blocks of four words that `words` needs.
template <typename F>
void for_each_block(const Philox& random, int64_t words, F f) {
  const int64_t blocks = div_up(words, 4);
#pragma omp parallel for schedule(static) if (words > kParallel)
  for (int64_t b = 0; b < blocks; ++b) f(b, random(static_cast<uint64_t>(b)));
}

struct DropoutPlan {
  int64_t size;
  double ratio;
  int64_t stream;
};

// Element i stays iff word i of the stream is at least `ratio`; what stays is scaled.
template <typename T>
void dropout(const DropoutPlan& p, const KernelArgs& args) {
  const T* x = args.input<T>(0);
  T* y = args.output<T>(0);
  const T scale = static_cast<T>(p.ratio < 1 ? 1 / (1 - p.ratio) : 0);
  for_each_block(generator(args.in[1], p.stream), p.size, [&](int64_t block, const auto& words) {
    const int64_t end = std::min(p.size, block * 4 + 4);
    for (int64_t i = block * 4; i < end; ++i) {
      y[i] = to_uniform(words[static_cast<size_t>(i % 4)]) >= p.ratio ? x[i] * scale : T{0};
    }
  });
}

struct RandomPlan {
  int64_t size;
  double a, b;
  int64_t stream;
};

// a + (b - a) u, kept below b after rounding
template <typename T>
void uniform(const RandomPlan& p, const KernelArgs& args) {
  T* y = args.output<T>(0);
  const T high = static_cast<T>(p.b), below = std::nextafter(high, static_cast<T>(p.a));
  for_each_block(generator(args.in[0], p.stream), p.size, [&](int64_t block, const auto& words) {
    const int64_t end = std::min(p.size, block * 4 + 4);
    for (int64_t i = block * 4; i < end; ++i) {
      const T v = static_cast<T>(p.a + (p.b - p.a) * to_uniform(words[static_cast<size_t>(i % 4)]));
      y[i] = v == high ? below : v;
    }
  });
}

// Box-Muller on words 2i and 2i + 1: sqrt(-2 ln(1 - u)) cos(2 pi v)
template <typename T>
void normal(const RandomPlan& p, const KernelArgs& args) {
  T* y = args.output<T>(0);
  for_each_block(
      generator(args.in[0], p.stream), 2 * p.size, [&](int64_t block, const auto& words) {
        const int64_t end = std::min(p.size, block * 2 + 2);
        for (int64_t i = block * 2; i < end; ++i) {
          const auto word = static_cast<size_t>(i % 2 * 2);
          const double u = to_uniform(words[word]), v = to_uniform(words[word + 1]);
          const double z = std::sqrt(-2 * std::log1p(-u)) * std::cos(2 * std::numbers::pi * v);
          y[i] = static_cast<T>(p.a + p.b * z);
        }
      });
}

std::unique_ptr<Kernel> plan_dropout(const NodeView& node, Scratch&) {
  const DropoutAttrs& attrs = node.attr<DropoutAttrs>();
  return bind_float(node.outputs[0].dtype,
                    DropoutPlan{node.outputs[0].size(), attrs.ratio, attrs.stream},
                    []<typename T>() { return dropout<T>; });
}

std::unique_ptr<Kernel> plan_random(const NodeView& node, Scratch&) {
  const RandomAttrs& attrs = node.attr<RandomAttrs>();
  const RandomPlan plan{node.outputs[0].size(), attrs.a, attrs.b, attrs.stream};
  if (attrs.kind == RandomKind::kUniform) {
    return bind_float(attrs.dtype, plan, []<typename T>() { return uniform<T>; });
  }
  return bind_float(attrs.dtype, plan, []<typename T>() { return normal<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kDropout, "reference", takes_floats, plan_dropout, true},
    {Op::kRandom, "reference", takes_floats, plan_random},
};

}  // namespace

std::span<const KernelRow> reference_random_kernels() { return kRows; }

}  // namespace trainrt::reference
