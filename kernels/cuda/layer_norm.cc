// LayerNorm and RmsNorm over the trailing axes, and their gradients: rows as softmax has them, then
// sums over rows in two stages.
#include "kernels/cuda/device/layer_norm.h"

#include "kernels/cuda/device/parts.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

struct NormShape {
  int64_t rows, width;
};

NormShape norm_shape(const NodeView& node, size_t x) {
  const Shape& shape = node.inputs[x].shape;
  const auto axis = static_cast<size_t>(node.attr<NormAttrs>().axis);
  return {size_of(shape, 0, axis), size_of(shape, axis, shape.size())};
}

Support takes_norm(const NodeView& node) { return all_float_or_bf16(node, 0b1, 0b1); }
Support takes_norm_grad(const NodeView& node) { return all_float_or_bf16(node, 0b11, 0b1); }

bool half(const TensorType& t) { return t.dtype == DType::kBFloat16; }

std::string row_function(std::string_view prefix, const RowTeam& team) {
  return std::string(prefix) + std::string(team.name == kNoTeam ? "long" : team.name);
}

template <bool kRms>
std::unique_ptr<Kernel> plan_norm(const NodeView& node, Scratch& scratch) {
  const NormShape s = norm_shape(node, 0);
  LayerNormArguments shaped{};
  shaped.rows = s.rows;
  shaped.width = s.width;
  shaped.epsilon = node.attr<NormAttrs>().epsilon;
  shaped.x_half = half(node.inputs[0]);
  shaped.y_half = half(node.outputs[0]);
  const RowTeam team = row_team(s.rows, s.width);
  const DType type = computed(node.outputs[0]).dtype;
  return make_kernel(
      [=, grid = team.grid, inputs = node.inputs.size(),
       f = function(scratch, row_function("layer_norm_", team), type)](const KernelArgs& k) {
        LayerNormArguments args = shaped;
        if (args.rows == 0) return;
        args.x = k.in[0];
        args.scale = inputs > 1 ? k.in[1] : nullptr;
        args.bias = inputs > 2 ? k.in[2] : nullptr;
        args.y = k.out[0];
        args.mean = kRms ? nullptr : k.out[1];
        args.inverse = k.out[kRms ? 1 : 2];
        k.stream->launch(f, grid, kThreads, args);
      });
}

template <bool kRms>
std::unique_ptr<Kernel> plan_norm_grad(const NodeView& node, Scratch& scratch) {
  const NormShape s = norm_shape(node, 1);
  constexpr size_t kInverse = kRms ? 2 : 3;
  const bool scaled = node.inputs.size() > kInverse + 1, sums = node.outputs.size() > 1;
  LayerNormGradArguments shaped{};
  shaped.rows = s.rows;
  shaped.width = s.width;
  shaped.dy_half = half(node.inputs[0]);
  shaped.x_half = half(node.inputs[1]);
  shaped.dx_half = half(node.outputs[0]);
  const RowTeam team = row_team(s.rows, s.width);
  const DType type = computed(node.outputs[0]).dtype;
  const SumStages stages(s.width, s.rows, lanes_for(s.width, s.rows));
  const size_t part_bytes =
      stages.parts > 1 && sums ? dtype_size(type) * static_cast<size_t>(s.width * stages.parts) : 0;
  const size_t scale_parts = book(scratch, part_bytes), bias_parts = book(scratch, part_bytes);
  return make_kernel([=, grid = team.grid,
                      f = function(scratch, row_function("layer_norm_grad_", team), type),
                      f_sums = function(scratch, "layer_norm_sums", type),
                      f_parts = function(scratch, "sum_parts", type)](const KernelArgs& k) {
    LayerNormGradArguments args = shaped;
    args.dy = k.in[0];
    args.x = k.in[1];
    args.mean = kRms ? nullptr : k.in[2];
    args.inverse = k.in[kInverse];
    args.scale = scaled ? k.in[kInverse + 1] : nullptr;
    args.dx = k.out[0];
    if (sums && s.width > 0) {  // before dx, which may lie on an operand
      void *dscale = k.out[1], *dbias = kRms ? nullptr : k.out[2];
      LayerNormSumsArguments sum{args.dy, args.x,  args.mean,    args.inverse, dscale,      dbias,
                                 s.rows,  s.width, args.dy_half, args.x_half,  stages.lanes};
      if (stages.parts > 1) {
        sum.dscale = scratch_at<void>(k, scale_parts);
        sum.dbias = kRms ? nullptr : scratch_at<void>(k, bias_parts);
      }
      k.stream->launch(f_sums, stages.grid(), kThreads, sum);
      if (stages.parts > 1) {
        const SumPartsArguments joined{sum.dscale, sum.dbias, dscale, dbias, s.width, stages.parts};
        k.stream->launch(f_parts, stages.second_grid(), kThreads, joined);
      }
    }
    if (s.rows * s.width > 0) k.stream->launch(f, grid, kThreads, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kLayerNorm, "cuda.layer_norm", takes_norm, plan_norm<false>, true, false, true},
    {Op::kLayerNormGrad, "cuda.layer_norm", takes_norm_grad, plan_norm_grad<false>, true, false,
     true},
    {Op::kRmsNorm, "cuda.layer_norm", takes_norm, plan_norm<true>, true, false, true},
    {Op::kRmsNormGrad, "cuda.layer_norm", takes_norm_grad, plan_norm_grad<true>, true, false, true},
};

}  // namespace

std::span<const KernelRow> layer_norm_rows() { return kRows; }

}  // namespace trainrt::cuda
