// Reductions over any axes, ArgMax and ArgMin.
#include "kernels/cuda/device/reduce.h"

#include <bit>

#include "kernels/cuda/strided.h"

namespace trainrt::cuda {
namespace {

Support takes_reduce(const NodeView& node) {
  const DType in = node.inputs[0].dtype, out = node.outputs[0].dtype;
  if (out == DType::kBFloat16) return Support::no("gives float32");
  return in == out || in == DType::kBFloat16 ? Support::yes() : Support::no("takes one type");
}

std::string_view function_name(Op op) {
  switch (op) {
    case Op::kReduceSum:
      return "reduce_sum";
    case Op::kReduceMean:
      return "reduce_mean";
    case Op::kReduceProd:
      return "reduce_prod";
    case Op::kReduceMax:
      return "reduce_max";
    case Op::kReduceMin:
      return "reduce_min";
    case Op::kArgMax:
      return "arg_max";
    default:
      return "arg_min";
  }
}

/// Threads for each result, and parts where results alone would leave the GPU idle.
void share_out(ReduceArguments& args, int64_t neighbours) {
  constexpr int64_t kBlocks = 512, kThreads64 = kThreads;
  const auto power = [](int64_t n) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  };
  int64_t lanes = 1;
  if (args.along) {
    lanes = args.count <= 2048 ? std::min<int64_t>(32, power(args.count)) : kThreads64;
  } else if (args.count > 4 && args.results < kBlocks * kThreads64) {
    lanes = kThreads64 / std::min<int64_t>(32, power(neighbours));
    lanes = std::min(lanes, power(args.count));
  }
  args.lanes = static_cast<int>(lanes);
  const int64_t tiles = (args.results * lanes + kThreads64 - 1) / kThreads64;
  const int64_t useful = args.count / (16 * lanes);
  args.parts = 1;
  if (tiles < kBlocks / 2 && useful > 1) {
    args.parts = std::min({useful, kBlocks / tiles, int64_t{512}});
  }
  args.part = (args.count + args.parts - 1) / args.parts;
}

size_t accumulator_bytes(const NodeView& node) {
  const size_t value = std::max<size_t>(4, dtype_size(node.inputs[0].dtype));
  switch (node.op) {
    case Op::kReduceMax:
    case Op::kReduceMin:
      return value;
    case Op::kArgMax:
    case Op::kArgMin:
      return 16;
    default:
      return 8;
  }
}

std::unique_ptr<Kernel> plan_over(const NodeView& node, const std::vector<int64_t>& axes, bool last,
                                  Scratch& scratch) {
  const TensorType& x = node.inputs[0];
  const Strides strides = row_major(x.shape);
  Shape kept, reduced;
  Strides kept_strides, reduced_strides;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    const bool gone = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(d));
    (gone ? reduced : kept).push_back(x.shape[d]);
    (gone ? reduced_strides : kept_strides).push_back(strides[d]);
  }
  const Dims<1> k(kept, {kept_strides}), r(reduced, {reduced_strides});
  ReduceArguments args{};
  args.results = k.count();
  args.count = r.count();
  args.last = last;
  args.kept = k.walk();
  args.reduced = r.walk();
  args.along = k.sizes.empty() || (!r.sizes.empty() && r.strides[0].back() == 1);
  share_out(args, k.sizes.empty() ? 1 : k.sizes.back());
  const size_t partials =
      args.parts == 1
          ? 0
          : book(scratch, static_cast<size_t>(args.parts * args.results) * accumulator_bytes(node));
  const std::string name(function_name(node.op));
  const bool floats =
      x.dtype == DType::kFloat32 || x.dtype == DType::kFloat64 || x.dtype == DType::kBFloat16;
  const bool far = !floats || is_far(args.results) || is_far(args.count);
  const gpu::Function* f = function(scratch, far ? name + "_far" : name, x.dtype);
  const gpu::Function* finish = function(scratch, name + "_finish", x.dtype);
  return make_kernel([=](const KernelArgs& run) {
    if (args.results == 0) return;
    ReduceArguments a = args;
    a.in = run.in[0];
    a.out = run.out[0];
    a.partials = scratch_at<void>(run, partials);
    const int64_t width = kThreads / static_cast<uint32_t>(a.lanes);
    const int64_t tiles = (a.results + width - 1) / width;
    run.stream->launch(f, blocks_of(tiles * a.parts), kThreads, a);
    if (a.parts > 1) run.stream->launch(finish, blocks_for(a.results * 32), kThreads, a);
  });
}

std::unique_ptr<Kernel> plan_reduce(const NodeView& node, Scratch& scratch) {
  return plan_over(node, node.attr<ReduceAttrs>().axes, false, scratch);
}

std::unique_ptr<Kernel> plan_arg(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<ArgAttrs>();
  return plan_over(node, {attrs.axis}, attrs.last, scratch);
}

constexpr KernelRow kRows[] = {
    {Op::kReduceSum, "cuda.reduce", takes_reduce, plan_reduce, false, false, true},
    {Op::kReduceMean, "cuda.reduce", takes_reduce, plan_reduce, false, false, true},
    {Op::kReduceProd, "cuda.reduce", takes_reduce, plan_reduce, false, false, true},
    {Op::kReduceMax, "cuda.reduce", takes_reduce, plan_reduce, false, false, true},
    {Op::kReduceMin, "cuda.reduce", takes_reduce, plan_reduce, false, false, true},
    {Op::kArgMax, "cuda.arg", nullptr, plan_arg},
    {Op::kArgMin, "cuda.arg", nullptr, plan_arg},
};

}  // namespace

std::span<const KernelRow> reduce_rows() { return kRows; }

}  // namespace trainrt::cuda
