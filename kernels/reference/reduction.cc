#include "kernels/reference/elementwise.h"

namespace trainrt::reference {
namespace {

struct ReducePlan {
  StridedLoop kept;     // offsets of the results' first elements
  StridedLoop reduced;  // offsets of the elements of one result
  int64_t results, count;
};

ReducePlan reduce_plan(const NodeView& node) {
  const Shape& shape = node.inputs[0].shape;
  const std::vector<int64_t> strides = row_major_strides(shape);
  const std::vector<int64_t>& axes = node.attr<ReduceAttrs>().axes;
  Shape kept, reduced;
  std::vector<int64_t> kept_strides, reduced_strides;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool gone = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    (gone ? reduced : kept).push_back(shape[d]);
    (gone ? reduced_strides : kept_strides).push_back(strides[d]);
  }
  return {StridedLoop(kept, {kept_strides}), StridedLoop(reduced, {reduced_strides}),
          element_count(kept), element_count(reduced)};
}

struct Sum {
  template <typename T>
  using Acc = Wide<T>;
  template <typename T>
  static constexpr Acc<T> kStart = 0;
  template <typename T>
  static Acc<T> step(Acc<T> acc, T x) {
    return acc + static_cast<Acc<T>>(x);
  }
  template <typename T>
  static T finish(Acc<T> acc, int64_t) {
    return static_cast<T>(acc);
  }
};

struct Mean : Sum {
  template <typename T>
  static T finish(Acc<T> acc, int64_t count) {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(acc / static_cast<double>(count));
    } else if constexpr (std::is_signed_v<T>) {
      return count == 0 ? T{0} : static_cast<T>(static_cast<int64_t>(acc) / count);
    } else {
      return count == 0 ? T{0} : static_cast<T>(acc / static_cast<uint64_t>(count));
    }
  }
};

struct Prod : Sum {
  template <typename T>
  static constexpr Acc<T> kStart = 1;
  template <typename T>
  static Acc<T> step(Acc<T> acc, T x) {
    return acc * static_cast<Acc<T>>(x);
  }
};

struct Largest {
  template <typename T>
  using Acc = T;
  template <typename T>
  static constexpr T kStart = lowest<T>();
  template <typename T>
  static T step(T acc, T x) {
    return maximum(acc, x);
  }
  template <typename T>
  static T finish(T acc, int64_t) {
    return acc;
  }
};

struct Smallest : Largest {
  template <typename T>
  static constexpr T kStart = highest<T>();
  template <typename T>
  static T step(T acc, T x) {
    return minimum(acc, x);
  }
};

/// Reduces blocks of neighbouring results together, so that memory is read in order when an outer
/// axis goes.
template <typename R, typename T>
void reduce(const ReducePlan& p, const KernelArgs& args) {
  using Acc = typename R::template Acc<T>;
  const int64_t block = p.reduced.step(0) == 1 ? 1 : std::min(kBlock, p.kept.width());
  const int64_t width = p.kept.width();
  const int64_t blocks = block == 0 ? 0 : div_up(width, block);
  const int64_t tasks = p.kept.rows() * blocks, apart = p.kept.step(0);
#pragma omp parallel for schedule(static) if (p.results * p.count > kParallel)
  for (int64_t t = 0; t < tasks; ++t) {
    const int64_t row = t / blocks, begin = t % blocks * block;
    const int64_t n = std::min(block, width - begin);
    const T* x = args.input<T>(0) + p.kept.offsets(row, begin)[0];
    Acc acc[kBlock];
    std::fill_n(acc, n, R::template kStart<T>);
    for (int64_t r = 0; r < p.reduced.rows(); ++r) {
      const T* line = x + p.reduced.offsets(r, 0)[0];
      for (int64_t i = 0; i < p.reduced.width(); ++i, line += p.reduced.step(0)) {
        for (int64_t j = 0; j < n; ++j) acc[j] = R::template step<T>(acc[j], line[j * apart]);
      }
    }
    T* y = args.output<T>(0) + row * width + begin;
    for (int64_t j = 0; j < n; ++j) y[j] = R::template finish<T>(acc[j], p.count);
  }
}

template <typename R>
std::unique_ptr<Kernel> plan_reduce(const NodeView& node, Scratch&) {
  return bind_number(node.outputs[0].dtype, reduce_plan(node),
                     []<typename T>() { return reduce<R, T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kReduceSum, "reference", takes_numbers, plan_reduce<Sum>},
    {Op::kReduceMean, "reference", takes_numbers, plan_reduce<Mean>},
    {Op::kReduceMax, "reference", takes_numbers, plan_reduce<Largest>},
    {Op::kReduceMin, "reference", takes_numbers, plan_reduce<Smallest>},
    {Op::kReduceProd, "reference", takes_numbers, plan_reduce<Prod>},
};

}  // namespace

std::span<const KernelRow> reference_reduction_kernels() { return kRows; }

}  // namespace trainrt::reference
