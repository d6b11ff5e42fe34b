// Between layouts by oneDNN, which also zeroes what pads the last block of channels, and between
// float32 and bfloat16.
#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {
namespace {

using dnnl::memory;

memory::desc desc_of(const TensorType& t) {
  using Tag = memory::format_tag;
  const memory::dims dims(t.shape.begin(), t.shape.end());
  return memory::desc(dims, onednn_type(t),
                      t.layout == Layout::kNChw16c ? Tag::nChw16c : Tag::nchw);
}

/// The same layout, another type.
bool converts(const NodeView& node) {
  const TensorType &from = node.inputs[0], &to = node.outputs[0];
  return from.layout == to.layout && is_bf16(from) != is_bf16(to);
}

Support takes_reorder(const NodeView& node) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  if (converts(node)) return s;
  if (node.outputs[0].rank() != 4) return Support::no("takes rank 4");
  return node.outputs[0].size() == 0 ? Support::no("takes no empty operand") : s;
}

std::unique_ptr<Kernel> plan_convert(const NodeView& node) {
  const int64_t n = node.outputs[0].stored_size();
  const bool narrow = is_bf16(node.outputs[0]);
  return make_kernel([=](const KernelArgs& args) {
    parallel_ranges(n, kParallelElements, [&](int64_t begin, int64_t end) {
      if (narrow)
        to_bf16(args.input<float>(0) + begin, args.output<uint16_t>(0) + begin, end - begin);
      else
        from_bf16(args.input<uint16_t>(0) + begin, args.output<float>(0) + begin, end - begin);
    });
  });
}

std::unique_ptr<Kernel> plan_reorder(const NodeView& node, Scratch& scratch) {
  if (converts(node)) return plan_convert(node);
  const memory::desc from = desc_of(node.inputs[0]), to = desc_of(node.outputs[0]);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc pd(onednn_engine(), from, onednn_engine(), to, attr);
  const size_t work = book(scratch, pd.scratchpad_desc().get_size());
  return make_kernel([work, call = OneDnnPrimitive(dnnl::reorder(pd),
                                                   {{DNNL_ARG_FROM, from},
                                                    {DNNL_ARG_TO, to},
                                                    {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}})](
                         const KernelArgs& args) {
    call.execute({const_cast<void*>(args.in[0]), args.out[0], scratch_at<char>(args, work)});
  });
}

constexpr KernelRow kRows[] = {
    {Op::kReorder, "onednn.reorder", takes_reorder, plan_reorder, false, true, true},
};

}  // namespace

std::span<const KernelRow> reorder_rows() { return kRows; }

}  // namespace trainrt
