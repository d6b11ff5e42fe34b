// Weighted taps along one axis: the table of taps lies on the device, sorted by the cells of the
// result, so that the adjoint gathers as well.
#include "kernels/cuda/device/interpolate.h"

#include <vector>

#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

Support takes_interpolate(const NodeView& node) {
  return all_of(node, {DType::kFloat32, DType::kBFloat16}).ok ? Support::yes() : all_float(node);
}

/// Device memory with contents that never change.
class Table {
 public:
  Table(gpu::Device& device, const void* from, size_t bytes)
      : device_(device), data_(device.allocate(bytes)) {
    const auto stream = device.make_stream();
    stream->copy_to_device(data_, from, bytes);
    stream->synchronize();
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() { device_.free(data_); }
  const void* data() const { return data_; }

 private:
  gpu::Device& device_;
  void* data_;
};

struct Terms {
  std::vector<long long> start, index;
  std::vector<double> weight;
};

/// Unused taps (weight 0) are left out, so that they carry no NaN over.
Terms terms_of(const InterpolateAttrs& attrs, bool gradient, int64_t cells) {
  const auto taps = static_cast<size_t>(attrs.taps);
  const auto cell_of = [&](size_t tap) {
    return gradient ? static_cast<size_t>(attrs.index[tap]) : tap / taps;
  };
  Terms t;
  t.start.resize(static_cast<size_t>(cells) + 1);
  for (size_t tap = 0; tap < attrs.weight.size(); ++tap) {
    if (attrs.weight[tap] != 0) ++t.start[cell_of(tap) + 1];
  }
  for (size_t i = 1; i < t.start.size(); ++i) t.start[i] += t.start[i - 1];
  t.index.resize(static_cast<size_t>(t.start.back()));
  t.weight.resize(t.index.size());
  std::vector<long long> next = t.start;
  for (size_t tap = 0; tap < attrs.weight.size(); ++tap) {
    if (attrs.weight[tap] == 0) continue;
    const auto at = static_cast<size_t>(next[cell_of(tap)]++);
    t.index[at] = gradient ? static_cast<long long>(tap / taps) : attrs.index[tap];
    t.weight[at] = attrs.weight[tap];
  }
  return t;
}

std::unique_ptr<Kernel> plan_interpolate(const NodeView& node, Scratch& scratch) {
  const InterpolateAttrs& attrs = node.attr<InterpolateAttrs>();
  const bool gradient = node.op == Op::kInterpolateGrad;
  const Shape& x = node.inputs[0].shape;
  const auto axis = static_cast<size_t>(attrs.axis);
  InterpolateArguments shaped{};
  shaped.outer = size_of(x, 0, axis);
  shaped.inner = size_of(x, axis + 1, x.size());
  shaped.from = x[axis];
  shaped.to = gradient ? attrs.in_size : attrs.out_size;
  shaped.half_x = node.inputs[0].dtype == DType::kBFloat16;
  shaped.half_out = node.outputs[0].dtype == DType::kBFloat16;
  std::shared_ptr<Table> start, index, weight;
  if (scratch.device != nullptr) {
    const Terms t = terms_of(attrs, gradient, shaped.to);
    const auto table = [&](const auto& values) {
      return std::make_shared<Table>(*scratch.device, values.data(),
                                     values.size() * sizeof(values[0]));
    };
    start = table(t.start);
    index = table(t.index);
    weight = table(t.weight);
  }
  return make_kernel(
      [shaped, start, index, weight, size = node.outputs[0].size(),
       f = function(scratch, "interpolate", computed(node.outputs[0]).dtype)](const KernelArgs& k) {
        if (size == 0) return;
        InterpolateArguments args = shaped;
        args.x = k.in[0];
        args.out = k.out[0];
        args.start = static_cast<const long long*>(start->data());
        args.index = static_cast<const long long*>(index->data());
        args.weight = static_cast<const double*>(weight->data());
        k.stream->launch(f, blocks_for(size), kThreads, args);
      });
}

constexpr KernelRow kRows[] = {
    {Op::kInterpolate, "cuda.interpolate", takes_interpolate, plan_interpolate, false, false, true},
    {Op::kInterpolateGrad, "cuda.interpolate", takes_interpolate, plan_interpolate, false, false,
     true},
};

}  // namespace

std::span<const KernelRow> interpolate_rows() { return kRows; }

}  // namespace trainrt::cuda
