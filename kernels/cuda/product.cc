#include "kernels/cuda/product.h"

namespace trainrt::cuda {

Support takes_factors(const NodeView& node) {
  if (all_of(node, {DType::kFloat64}).ok) return Support::yes();
  Support s = all_of(node, {DType::kFloat32, DType::kBFloat16});
  if (!s.ok) return s;
  const bool bf16 = node.inputs[0].dtype == DType::kBFloat16;
  if (bf16 != (node.inputs[1].dtype == DType::kBFloat16)) {
    return Support::no("multiplies operands of one type");
  }
  if (!bf16 && node.outputs[0].dtype == DType::kBFloat16) {
    return Support::no("gives bfloat16 for bfloat16 only");
  }
  if (node.inputs.size() > 2 && node.inputs[2].dtype == DType::kBFloat16) {
    return Support::no("adds a float32 bias");
  }
  return s;
}

std::string product_suffix(const NodeView& node) {
  const DType in = node.inputs[0].dtype, out = node.outputs[0].dtype;
  std::string s(suffix(in));
  return in == out ? s : s + "_" + std::string(suffix(out));
}

DType sum_type(DType dtype) {
  if (dtype == DType::kBFloat16) return DType::kFloat32;
  if (dtype == DType::kFloat32 || dtype == DType::kFloat64) return dtype;
  return dtype_size(dtype) == 8 ? DType::kUInt64 : DType::kUInt32;
}

Parts split_sum(int64_t blocks, int64_t inner) {
  // The same on every device, so that results are.
  constexpr int64_t kEnough = 128, kWanted = 256, kShortest = 256, kMost = 64;
  if (blocks >= kEnough || inner < 2 * kShortest) return {inner, 1};
  const int64_t parts =
      std::min({kWanted / std::max<int64_t>(blocks, 1), inner / kShortest, kMost});
  const int64_t length = ((inner + parts - 1) / parts + 15) / 16 * 16;
  return {length, static_cast<int>((inner + length - 1) / length)};
}

Finish::Finish(const NodeView& node, const Scratch& scratch, int parts, int64_t inner,
               int64_t columns, bool relu)
    : bias_(node.inputs.size() > 2),
      function_(function(scratch, "product_join", node.outputs[0].dtype)) {
  join_.size = node.outputs[0].size();
  join_.inner = inner;
  join_.columns = columns;
  join_.parts = parts;
  join_.relu = relu;
}

void Finish::run(const KernelArgs& args, const void* sums) const {
  JoinArguments join = join_;
  join.sums = sums;
  join.bias = bias_ ? args.in[2] : nullptr;
  join.out = args.out[0];
  args.stream->launch(function_, blocks_for(join.size), kThreads, join);
}

std::unique_ptr<Kernel> no_kernel() {
  return make_kernel([](const KernelArgs&) {
    throw Error(ErrorCode::kInternal, "a kernel that was planned without a device");
  });
}

}  // namespace trainrt::cuda
