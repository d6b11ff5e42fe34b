// Convolution, pooling, resampling.
#include <algorithm>
#include <cmath>

#include "graph/attr_fields.h"
#include "graph/infer_util.h"

namespace trainrt::infer {
namespace {

void check_entries(std::span<const int64_t> list, size_t spatial, int64_t least,
                   std::string_view what) {
  check_length(list.size(), static_cast<int64_t>(spatial), what);
  for (int64_t v : list) {
    if (v < least || v > kMaxExtent) {
      fail(what, " ", to_string(list), " must lie in ", least, "..", kMaxExtent);
    }
  }
}

size_t spatial_rank(const Shape& x) {
  if (x.size() < 3 || x.size() > 5) {
    fail("expected [N,C] and one to three spatial dims, given ", to_string(x));
  }
  return x.size() - 2;
}

// y of y = conv(x, w): floor((in + pads - dilation (k - 1) - 1) / stride) + 1 for each dim.
Shape conv_shape(const ConvAttrs& c, const Shape& x, const Shape& w) {
  const size_t spatial = spatial_rank(x);
  check_entries(c.strides, spatial, 1, "strides");
  check_entries(c.dilations, spatial, 1, "dilations");
  check_entries(c.pads_begin, spatial, 0, "pads_begin");
  check_entries(c.pads_end, spatial, 0, "pads_end");
  if (w.size() != x.size()) {
    fail("weight ", to_string(w), " does not fit input ", to_string(x));
  }
  if (c.group < 1 || x[1] % c.group != 0 || w[0] % c.group != 0 || x[1] / c.group != w[1]) {
    fail("weight ", to_string(w), " does not fit ", x[1], " channels in ", c.group, " group(s)");
  }
  Shape y = {x[0], w[0]};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t k = w[i + 2];
    if (k < 1 || k > kMaxExtent) fail("kernel of weight ", to_string(w), " is empty or too large");
    const int64_t room = x[i + 2] + c.pads_begin[i] + c.pads_end[i] - c.dilations[i] * (k - 1) - 1;
    if (room < 0) {
      fail("the kernel of ", to_string(w), " is larger than the padded input ", to_string(x),
           " along spatial axis ", i);
    }
    y.push_back(room / c.strides[i] + 1);
  }
  return y;
}

Types conv(const Args& a) {
  const auto& attr = a.attr<ConvAttrs>();
  check_float(a, 0);
  check_same_dtype(a, 0, 1);
  check_no_shape(attr.shape);
  const TensorType y{a.in[0].dtype, conv_shape(attr, a.in[0].shape, a.in[1].shape)};
  if (a.in.size() == 3) check_same_type(a.in[2], {y.dtype, {y.shape[1]}}, "bias");
  return {y};
}

Types conv_data_grad(const Args& a) {
  const auto& attr = a.attr<ConvAttrs>();
  check_float(a, 0);
  check_same_dtype(a, 0, 1);
  check_shape(attr.shape, "attribute shape");
  check_same_shape(a.in[0], conv_shape(attr, attr.shape, a.in[1].shape), "operand 0");
  return {{a.in[0].dtype, attr.shape}};
}

Types conv_weight_grad(const Args& a) {
  const auto& attr = a.attr<ConvAttrs>();
  check_float(a, 0);
  check_same_dtype(a, 0, 1);
  check_shape(attr.shape, "attribute shape");
  check_same_shape(a.in[1], conv_shape(attr, a.in[0].shape, attr.shape), "operand 1");
  return {{a.in[0].dtype, attr.shape}};
}

Types norm_conv(const Args& a) {
  const auto& attrs = a.attr<NormConvAttrs>();
  const Types norm = infer_types(Op::kBatchNorm, a.in.first(3), attrs.norm());
  const TensorType operands[] = {norm[0], a.in[3]};
  return {infer_types(Op::kConv, operands, attrs.conv())[0], norm[1], norm[2]};
}

Types norm_conv_grad(const Args& a) {
  const TensorType operands[] = {a.in[1], a.in[2], a.in[3], a.in[6]};
  const Types forward = infer_types(Op::kNormConv, operands, a.attrs);
  check_same_type(a.in[0], forward[0], "operand 0");
  check_same_type(a.in[4], forward[1], "mean");
  check_same_type(a.in[5], forward[2], "variance");
  return {a.in[1], a.in[2], a.in[3], a.in[6]};
}

// Whether each of `count` windows holds a cell of [0, in), so that maxima and means exist. Windows
// beginning at s < 0 reach their first cell after ceil(-s / dilation) taps.
bool windows_hold_cells(int64_t in, int64_t count, int64_t kernel, int64_t stride, int64_t dilation,
                        int64_t pad) {
  if (count == 0) return true;
  if ((count - 1) * stride - pad >= in) return false;
  const int64_t before = std::min(count, (pad + stride - 1) / stride);
  if (before == 0) return true;
  if (dilation <= in) return (pad + dilation - 1) / dilation < kernel;
  if (before > (int64_t{1} << 24)) return false;
  for (int64_t o = 0; o < before; ++o) {
    const int64_t missing = pad - o * stride, taps = (missing + dilation - 1) / dilation;
    if (taps >= kernel || taps * dilation - missing >= in) return false;
  }
  return true;
}

Shape pool_shape(const Args& a, const Shape& x) {
  const auto& p = a.attr<PoolAttrs>();
  const size_t spatial = spatial_rank(x);
  check_entries(p.kernel, spatial, 1, "kernel");
  check_entries(p.strides, spatial, 1, "strides");
  check_entries(p.dilations, spatial, 1, "dilations");
  check_entries(p.pads_begin, spatial, 0, "pads_begin");
  check_entries(p.pads_end, spatial, 0, "pads_end");
  check_entries(p.output, spatial, 0, "output");
  check_shape(p.kernel, "kernel");
  const bool average = a.op == Op::kAveragePool || a.op == Op::kAveragePoolGrad;
  if (p.count_include_pad && !average) fail("only AveragePool has count_include_pad");
  if (p.column_major && a.op != Op::kMaxPoolIndices) fail("only MaxPoolIndices has column_major");
  Shape y = {x[0], x[1]};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t last = (p.output[i] - 1) * p.strides[i] - p.pads_begin[i];
    const bool ok = p.count_include_pad
                        ? p.output[i] == 0 || last < x[i + 2] + p.pads_end[i]
                        : windows_hold_cells(x[i + 2], p.output[i], p.kernel[i], p.strides[i],
                                             p.dilations[i], p.pads_begin[i]);
    if (!ok) {
      fail("some window holds no cell of ", to_string(x), " along spatial axis ", i, ": kernel ",
           p.kernel[i], ", stride ", p.strides[i], ", dilation ", p.dilations[i], ", pads ",
           p.pads_begin[i], " and ", p.pads_end[i], ", ", p.output[i],
           " windows; pads must be smaller than the kernel");
    }
    y.push_back(p.output[i]);
  }
  return y;
}

Types pool(const Args& a) {
  check_numeric(a, 0);
  if (a.op == Op::kAveragePool) check_float(a, 0);
  check_no_shape(a.attr<PoolAttrs>().shape);
  const Shape shape = pool_shape(a, a.in[0].shape);
  return {{a.op == Op::kMaxPoolIndices ? DType::kInt64 : a.in[0].dtype, shape}};
}

Types max_pool_grad(const Args& a) {
  check_float(a, 0);
  check_same_dtype(a, 0, 1);
  check_no_shape(a.attr<PoolAttrs>().shape);
  check_same_shape(a.in[0], pool_shape(a, a.in[1].shape), "operand 0");
  return {a.in[1]};
}

Types average_pool_grad(const Args& a) {
  const Shape& shape = a.attr<PoolAttrs>().shape;
  check_float(a, 0);
  check_shape(shape, "attribute shape");
  check_same_shape(a.in[0], pool_shape(a, shape), "operand 0");
  return {{a.in[0].dtype, shape}};
}

Types interpolate(const Args& a) {
  const auto& p = a.attr<InterpolateAttrs>();
  const bool grad = a.op == Op::kInterpolateGrad;
  check_float(a, 0);
  check_axis(p.axis, a.in[0].rank());
  if (p.in_size < 0 || p.out_size < 0 || p.taps < 1) {
    fail("sizes ", p.in_size, " and ", p.out_size, " with ", p.taps, " taps make no sense");
  }
  int64_t entries = 0;
  if (__builtin_mul_overflow(p.out_size, p.taps, &entries)) fail("there are too many taps");
  check_length(p.index.size(), entries, "index");
  check_length(p.weight.size(), entries, "weight");
  for (int64_t i : p.index) {
    if (i < 0 || i >= p.in_size) fail("index ", i, " is outside of axis size ", p.in_size);
  }
  for (double w : p.weight) {
    if (!std::isfinite(w)) fail("weight ", w, " is not finite");
  }
  Shape shape = a.in[0].shape;
  int64_t& dim = shape[static_cast<size_t>(p.axis)];
  if (dim != (grad ? p.out_size : p.in_size)) {
    fail("axis ", p.axis, " of ", to_string(a.in[0]), " should be ", grad ? p.out_size : p.in_size);
  }
  dim = grad ? p.in_size : p.out_size;
  return {{a.in[0].dtype, shape}};
}

// y of RoiPool: [rois, channels, height, width].
Shape roi_shape(const Args& a, const TensorType& x, const TensorType& rois,
                const TensorType& images) {
  constexpr int64_t kMaxRatio = 1024;
  const auto& p = a.attr<RoiAttrs>();
  if (!enum_in_range(p.mode)) fail("unknown mode");
  if (x.rank() != 4) fail("rois are cut from [N,C,H,W], given ", to_string(x));
  if (rois.dtype != x.dtype) fail("rois of ", to_string(x), " are given as ", to_string(rois));
  if (rois.rank() != 2 || rois.shape[1] != 4) fail("rois are [R,4], given ", to_string(rois));
  check_same_shape(images, {rois.shape[0]}, "images");
  if (p.height < 0 || p.height > kMaxExtent || p.width < 0 || p.width > kMaxExtent) {
    fail("bins ", p.height, " x ", p.width, " must lie in 0..", kMaxExtent);
  }
  if (p.sampling_ratio < 0 || p.sampling_ratio > kMaxRatio) {
    fail("sampling_ratio ", p.sampling_ratio, " must lie in 0..", kMaxRatio);
  }
  if (!std::isfinite(p.scale)) fail("scale ", p.scale, " is not finite");
  const Shape y = {rois.shape[0], x.shape[1], p.height, p.width};
  if (x.shape[2] == 0 || x.shape[3] == 0) fail("there is nothing to cut from: ", to_string(x));
  return y;
}

Types roi_pool(const Args& a) {
  check_float(a, 0);
  check_index_type(a, 2);
  return {{a.in[0].dtype, roi_shape(a, a.in[0], a.in[1], a.in[2])}};
}

Types roi_pool_grad(const Args& a) {
  check_float(a, 0);
  check_same_dtype(a, 0, 1);
  check_index_type(a, 3);
  check_same_shape(a.in[0], roi_shape(a, a.in[1], a.in[2], a.in[3]), "operand 0");
  return {a.in[1]};
}

constexpr Row kRows[] = {
    {Op::kConv, conv},
    {Op::kConvDataGrad, conv_data_grad},
    {Op::kConvWeightGrad, conv_weight_grad},
    {Op::kNormConv, norm_conv},
    {Op::kNormConvGrad, norm_conv_grad},
    {Op::kMaxPool, pool},
    {Op::kMaxPoolIndices, pool},
    {Op::kMaxPoolGrad, max_pool_grad},
    {Op::kAveragePool, pool},
    {Op::kAveragePoolGrad, average_pool_grad},
    {Op::kInterpolate, interpolate},
    {Op::kInterpolateGrad, interpolate},
    {Op::kRoiPool, roi_pool},
    {Op::kRoiPoolGrad, roi_pool_grad},
};

}  // namespace

std::span<const Row> spatial_rows() { return kRows; }

}  // namespace trainrt::infer
