// Determinants and cofactors of small matrices: a thread for each.
#include "kernels/cuda/device/determinant.h"

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

constexpr int64_t kMostThreads = 4096;  // at a time: each has scratch of its own

std::unique_ptr<Kernel> plan_matrices(const NodeView& node, Scratch& scratch) {
  const bool cofactor = node.op == Op::kCofactor;
  const Shape& x = node.inputs[0].shape;
  const int64_t n = x.back(), count = size_of(x, 0, x.size() - 2);
  DeterminantArguments shaped{};
  shaped.count = count;
  shaped.n = n;
  shaped.doubles = cofactor ? 2 * n * n + 2 * n : n * n;
  const int64_t threads = std::min(count, kMostThreads);
  const auto blocks = static_cast<uint32_t>((threads + 31) / 32);
  const size_t at = book(scratch, static_cast<size_t>(blocks) * 32 *
                                      static_cast<size_t>(shaped.doubles) * sizeof(double));
  return make_kernel([=, size = node.outputs[0].size(),
                      f = function(scratch, cofactor ? "cofactor" : "determinant",
                                   node.outputs[0].dtype)](const KernelArgs& k) {
    if (size == 0) return;
    DeterminantArguments args = shaped;
    args.x = k.in[0];
    args.out = k.out[0];
    args.scratch = scratch_at<double>(k, at);
    k.stream->launch(f, {blocks}, 32, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kDet, "cuda.determinant", all_float, plan_matrices},
    {Op::kCofactor, "cuda.determinant", all_float, plan_matrices},
};

}  // namespace

std::span<const KernelRow> determinant_rows() { return kRows; }

}  // namespace trainrt::cuda
