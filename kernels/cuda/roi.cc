// Pooling over regions of interest.
#include "kernels/cuda/device/roi.h"

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

Support takes_rois(const NodeView& node) {
  const DType type = node.outputs[0].dtype, images = node.inputs.back().dtype;
  if (images != DType::kInt32 && images != DType::kInt64) {
    return Support::no("takes numbers of images as int32 or int64");
  }
  for (size_t i = 0; i + 1 < node.inputs.size(); ++i) {
    if (node.inputs[i].dtype != type) return Support::no("takes operands of one type");
  }
  return type == DType::kFloat32 || type == DType::kFloat64
             ? Support::yes()
             : Support::no("takes no " + std::string(dtype_name(type)));
}

RoiKind kind_of(RoiMode mode) {
  return mode == RoiMode::kAverage ? RoiKind::kAverage
         : mode == RoiMode::kMax   ? RoiKind::kMax
                                   : RoiKind::kCellMax;
}

std::unique_ptr<Kernel> plan_rois(const NodeView& node, Scratch& scratch) {
  const RoiAttrs& attrs = node.attr<RoiAttrs>();
  const bool gradient = node.op == Op::kRoiPoolGrad;
  const size_t first = gradient ? 1 : 0;
  const Shape& x = node.inputs[first].shape;
  RoiArguments shaped{};
  shaped.wide_images = node.inputs.back().dtype == DType::kInt64;
  shaped.kind = kind_of(attrs.mode);
  shaped.half_pixel = attrs.half_pixel;
  shaped.scale = attrs.scale;
  shaped.batch = x[0];
  shaped.channels = x[1];
  shaped.rows = x[2];
  shaped.columns = x[3];
  shaped.count = node.inputs[first + 1].shape[0];
  shaped.height = attrs.height;
  shaped.width = attrs.width;
  shaped.sampling_ratio = attrs.sampling_ratio;
  const int64_t items = gradient ? shaped.batch * shaped.channels : node.outputs[0].size();
  return make_kernel([shaped, first, gradient, items, size = node.outputs[0].size(),
                      f = function(scratch, gradient ? "roi_pool_grad" : "roi_pool",
                                   node.outputs[0].dtype)](const KernelArgs& k) {
    if (size == 0) return;
    RoiArguments args = shaped;
    args.dy = gradient ? k.in[0] : nullptr;
    args.x = k.in[first];
    args.rois = k.in[first + 1];
    args.images = k.in[first + 2];
    args.out = k.out[0];
    args.status = k.status;
    args.step = k.step;
    k.stream->launch(f, blocks_for(items), kThreads, args);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kRoiPool, "cuda.roi", takes_rois, plan_rois},
    {Op::kRoiPoolGrad, "cuda.roi", takes_rois, plan_rois},
};

}  // namespace

std::span<const KernelRow> roi_rows() { return kRows; }

}  // namespace trainrt::cuda
