// BatchNorm and its gradient: sums over a channel in two stages, then one pass over all elements.
#include "kernels/cuda/device/batch_norm.h"

#include "kernels/cuda/device/parts.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

static_assert(static_cast<int>(Activation::kNone) == 0 &&
              static_cast<int>(Activation::kRelu) == 1 && static_cast<int>(Activation::kClip) == 2);

BatchNormShape shape_of(const NodeView& node) {
  const Shape& x = node.inputs[0].shape;
  const auto& a = node.attr<NormAttrs>();
  return {x[0], x[1], size_of(x, 2, x.size()),       a.epsilon,
          a.lo, a.hi, static_cast<int>(a.activation)};
}

int64_t elements(const BatchNormShape& s) { return s.batch * s.spatial; }

/// How planes are shared out: a power of two of threads for each piece of a plane.
struct Planes {
  uint32_t lanes = 1;
  int pieces;
  gpu::Size3 grid;

  explicit Planes(const BatchNormShape& s) {
    constexpr int64_t kPiece = 4096;
    while (lanes < kThreads && lanes < s.spatial) lanes *= 2;
    pieces = static_cast<int>(std::max<int64_t>(1, s.spatial / kPiece));
    grid = blocks_for(s.batch * s.channels * pieces * lanes);
  }
};

/// Images have their channels one by one, [batch, channels] has them side by side.
SumStages stages_of(const BatchNormShape& s) {
  return {s.channels, elements(s), s.spatial == 1 ? lanes_for(s.channels, s.batch) : 1};
}

bool half(const TensorType& t) { return t.dtype == DType::kBFloat16; }
DType type_of(const NodeView& node) { return computed(node.outputs[0]).dtype; }

size_t book_parts(const NodeView& node, const SumStages& stages, Scratch& scratch) {
  const auto parts = static_cast<size_t>(stages.parts > 1 ? stages.columns * stages.parts : 0);
  return book(scratch, dtype_size(type_of(node)) * parts);
}

Support takes_norm(const NodeView& node) { return all_float_or_bf16(node, 0b1001, 0b1); }
Support takes_apply(const NodeView& node) { return all_float_or_bf16(node, 0b100001, 0b1); }
Support takes_grad(const NodeView& node) {
  return all_float_or_bf16(node, node.outputs.size() == 4 ? 0b100011 : 0b11, 0b1001);
}

/// BatchNormApply: the statistics are given.
template <bool kGiven>
std::unique_ptr<Kernel> plan_norm(const NodeView& node, Scratch& scratch) {
  const BatchNormShape shape = shape_of(node);
  const DType type = type_of(node);
  constexpr size_t kResidual = kGiven ? 5 : 3;
  const bool residual = node.inputs.size() > kResidual;
  const Planes planes(shape);
  const SumStages stages = stages_of(shape);
  BatchNormArguments shaped{};
  shaped.shape = shape;
  shaped.x_half = half(node.inputs[0]);
  shaped.residual_half = residual && half(node.inputs[kResidual]);
  shaped.y_half = half(node.outputs[0]);
  shaped.lanes = planes.lanes;
  shaped.pieces = planes.pieces;
  size_t means = 0, squares = 0;
  if (!kGiven) {
    means = book_parts(node, stages, scratch);
    squares = book_parts(node, stages, scratch);
  }
  return make_kernel([=, f = function(scratch, "batch_norm", type),
                      f_statistics = function(scratch, "batch_norm_statistics", type),
                      f_join = function(scratch, "batch_norm_join", type)](const KernelArgs& k) {
    BatchNormArguments args = shaped;
    args.x = k.in[0];
    args.scale = k.in[1];
    args.bias = k.in[2];
    args.mean = kGiven ? k.in[3] : k.out[1];
    args.variance = kGiven ? k.in[4] : k.out[2];
    args.residual = residual ? k.in[kResidual] : nullptr;
    args.y = k.out[0];
    if (!kGiven && shape.channels > 0) {
      const bool parts = stages.parts > 1;
      BatchNormSumsArguments sums{};
      sums.shape = shape;
      sums.x = args.x;
      sums.x_half = args.x_half;
      sums.lanes = stages.lanes;
      sums.out0 = parts ? scratch_at<void>(k, means) : k.out[1];
      sums.out1 = parts ? scratch_at<void>(k, squares) : k.out[2];
      k.stream->launch(f_statistics, stages.grid(), kThreads, sums);
      if (parts) {
        const BatchNormJoinArguments join{sums.out0,      sums.out1,       k.out[1],    k.out[2],
                                          shape.channels, elements(shape), stages.parts};
        k.stream->launch(f_join, stages.second_grid(), kThreads, join);
      }
    }
    if (elements(shape) * shape.channels > 0) k.stream->launch(f, planes.grid, kThreads, args);
  });
}

std::unique_ptr<Kernel> plan_grad(const NodeView& node, Scratch& scratch) {
  const BatchNormShape shape = shape_of(node);
  const DType type = type_of(node);
  const bool masked = node.inputs.size() == 6, residual = node.outputs.size() == 4;
  const Planes planes(shape);
  const SumStages stages = stages_of(shape);
  BatchNormGradArguments shaped{};
  shaped.shape = shape;
  shaped.dy_half = half(node.inputs[0]);
  shaped.x_half = half(node.inputs[1]);
  shaped.result_half = residual && half(node.inputs[5]);
  shaped.dx_half = half(node.outputs[0]);
  shaped.dresidual_half = residual && half(node.outputs[3]);
  shaped.lanes = planes.lanes;
  shaped.pieces = planes.pieces;
  const size_t scales = book_parts(node, stages, scratch),
               biases = book_parts(node, stages, scratch);
  return make_kernel([=, f = function(scratch, "batch_norm_grad", type),
                      f_sums = function(scratch, "batch_norm_sums", type),
                      f_parts = function(scratch, "sum_parts", type)](const KernelArgs& k) {
    BatchNormGradArguments args = shaped;
    args.dy = k.in[0];
    args.x = k.in[1];
    args.scale = k.in[2];
    args.mean = k.in[3];
    args.variance = k.in[4];
    args.bias = masked && !residual ? k.in[5] : nullptr;
    args.result = residual ? k.in[5] : nullptr;
    args.dscale = k.out[1];
    args.dbias = k.out[2];
    args.dx = k.out[0];
    args.dresidual = residual ? k.out[3] : nullptr;
    if (shape.channels == 0) return;
    const bool parts = stages.parts > 1;
    BatchNormSumsArguments sums{};
    sums.shape = shape;
    sums.x = args.x;
    sums.dy = args.dy;
    sums.scale = args.scale;
    sums.mean = args.mean;
    sums.variance = args.variance;
    sums.bias = args.bias;
    sums.result = args.result;
    sums.x_half = args.x_half;
    sums.dy_half = args.dy_half;
    sums.result_half = args.result_half;
    sums.lanes = stages.lanes;
    sums.out0 = parts ? scratch_at<void>(k, scales) : k.out[1];
    sums.out1 = parts ? scratch_at<void>(k, biases) : k.out[2];
    k.stream->launch(f_sums, stages.grid(), kThreads, sums);
    if (parts) {
      const SumPartsArguments joined{sums.out0, sums.out1,      k.out[1],
                                     k.out[2],  shape.channels, stages.parts};
      k.stream->launch(f_parts, stages.second_grid(), kThreads, joined);
    }
    if (elements(shape) > 0) k.stream->launch(f, planes.grid, kThreads, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kBatchNorm, "cuda.batch_norm", takes_norm, plan_norm<false>, true, false, true},
    {Op::kBatchNormApply, "cuda.batch_norm", takes_apply, plan_norm<true>, true, false, true},
    {Op::kBatchNormGrad, "cuda.batch_norm", takes_grad, plan_grad, true, false, true},
};

}  // namespace

std::span<const KernelRow> batch_norm_rows() { return kRows; }

}  // namespace trainrt::cuda
