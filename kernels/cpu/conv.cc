// Convolution and its two gradients by oneDNN. Activations are plain (nchw) or nChw16c, weights
// plain; where the kernel wants another layout, reorders run inside, with buffers in its scratch.
#include <map>
#include <mutex>
#include <optional>

#include "kernels/cpu/amx.h"
#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

namespace trainrt {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::primitive_attr;
using Dims = memory::dims;
using Tag = memory::format_tag;

enum class Pass : uint8_t { kForward, kData, kWeights };
enum class Format : uint8_t { kAny, kBlocked, kPlain };

struct ConvShape {
  Pass pass;
  Dims x, w, y;  // w with a leading group dim when there are groups
  Dims strides, dilations, pads_begin, pads_end;
  int64_t group;
  int64_t relu = 0;  // elements of a result that goes through a ReLU
  bool bias, pointwise, strided;
  bool x_blocked, y_blocked;  // layouts of the caller's activations
  memory::data_type x_type, w_type, y_type;

  bool bf16() const {
    return (pass == Pass::kForward ? x_type : y_type) == memory::data_type::bf16;
  }
};

ConvShape shape_of(const NodeView& node) {
  const auto& attr = node.attr<ConvAttrs>();
  ConvShape s;
  s.pass = node.op == Op::kConv           ? Pass::kForward
           : node.op == Op::kConvDataGrad ? Pass::kData
                                          : Pass::kWeights;
  const auto [tx, tw, ty] = conv_operands(node);
  const Shape &x = tx.shape, &w = tw.shape, &y = ty.shape;
  s.x_blocked = tx.layout == Layout::kNChw16c;
  s.y_blocked = ty.layout == Layout::kNChw16c;
  s.x_type = onednn_type(tx);
  s.w_type = onednn_type(tw);
  s.y_type = onednn_type(ty);
  s.group = attr.group;
  s.bias = node.inputs.size() == 3;
  if (attr.relu) s.relu = node.outputs[0].stored_size();
  s.x.assign(x.begin(), x.end());
  s.y.assign(y.begin(), y.end());
  if (s.group > 1)
    s.w = {s.group, w[0] / s.group};
  else
    s.w = {w[0]};
  s.w.insert(s.w.end(), w.begin() + 1, w.end());
  s.pointwise = s.group == 1;
  s.strided = false;
  for (size_t d = 0; d + 2 < x.size(); ++d) {
    s.strides.push_back(attr.strides[d]);
    s.dilations.push_back(attr.dilations[d] - 1);
    s.pads_begin.push_back(attr.pads_begin[d]);
    s.pads_end.push_back(attr.pads_end[d]);
    s.strided |= attr.strides[d] > 1;
    s.pointwise &= w[d + 2] == 1 && attr.pads_begin[d] == 0 && attr.pads_end[d] == 0;
  }
  return s;
}

Dims plain_strides(const Dims& dims) {
  const std::vector<int64_t> s = dense_strides(dims);
  return Dims(s.begin(), s.end());
}

memory::desc plain(const Dims& dims, memory::data_type type = memory::data_type::f32) {
  return memory::desc(dims, type, plain_strides(dims));
}

memory::desc activations(const Dims& dims, Format format, memory::data_type type) {
  constexpr Tag kBlocked[] = {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c};
  if (format == Format::kPlain) return plain(dims, type);
  const Tag tag = format == Format::kAny ? Tag::any : kBlocked[dims.size() - 3];
  return memory::desc(dims, type, tag);
}

/// What runs one pass, and the layouts in which it wants its operands.
struct Plan {
  dnnl::primitive_desc_base pd;
  memory::desc x, w, y;
  std::string name;
};

std::optional<Plan> try_formats(const ConvShape& s, Format fx, Format fy) {
  const auto x = activations(s.x, fx, s.x_type), y = activations(s.y, fy, s.y_type);
  const memory::desc w(s.w, s.w_type, Tag::any);
  const memory::desc b = s.bias ? plain({s.y[1]}) : memory::desc();
  primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto direct = algorithm::convolution_direct;
  Plan p;
  const auto fill = [&](const auto& pd, const memory::desc& px, const memory::desc& pw,
                        const memory::desc& py) {
    p.pd = pd;
    p.name = pd.impl_info_str();
    p.x = px;
    p.w = pw;
    p.y = py;
  };
  try {
    using Forward = dnnl::convolution_forward;
    // A hint for the gradients: they take bfloat16 in place of what they give as float32.
    const auto narrow = [&](const Dims& dims, Format format, const memory::desc& desc) {
      return s.pass != Pass::kForward && s.bf16()
                 ? activations(dims, format, memory::data_type::bf16)
                 : desc;
    };
    const memory::desc hint_w =
        s.pass == Pass::kWeights && s.bf16() ? memory::desc(s.w, s.x_type, Tag::any) : w;
    const Forward::primitive_desc forward(onednn_engine(), dnnl::prop_kind::forward_training,
                                          direct, narrow(s.x, fx, x), hint_w, b, narrow(s.y, fy, y),
                                          s.strides, s.dilations, s.pads_begin, s.pads_end, attr);
    if (s.pass == Pass::kForward) {
      fill(forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc());
    } else if (s.pass == Pass::kData) {
      using Backward = dnnl::convolution_backward_data;
      const Backward::primitive_desc pd(onednn_engine(), direct, x, w, y, s.strides, s.dilations,
                                        s.pads_begin, s.pads_end, forward, attr);
      fill(pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc());
    } else {
      using Backward = dnnl::convolution_backward_weights;
      const Backward::primitive_desc pd(onednn_engine(), direct, x, w, y, s.strides, s.dilations,
                                        s.pads_begin, s.pads_end, forward, attr);
      fill(pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc());
    }
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
  return p;
}

bool is_slow(const ConvShape& s, const std::string& name) {
  return name.find("ref") != std::string::npos ||
         (s.group > 1 && name.find("brgconv_strided") != std::string::npos) ||
         (s.bf16() && name.find("gemm:") != std::string::npos);
}

/// For activations in the caller's blocked layout: no reorders of them, no slow implementations.
std::optional<Plan> choose_blocked(const ConvShape& s) {
  const Format fx = s.x_blocked ? Format::kBlocked : Format::kPlain;
  const std::optional<Plan> p = try_formats(s, fx, Format::kBlocked);
  if (!p) return p;
  return is_slow(s, p->name) || p->name.find("gemm:") != std::string::npos ? std::nullopt : p;
}

// ms per pass on AVX-512, one thread, plain / any with reorders: 3x3 64@56 23/15 forward, 144@56
// depthwise 17/8 in every pass, 1x1 96-24@56 forward 1.8/4.3, dW 4.5/3.8, 32 groups of 4 dW 3/11
// (`any` is gemm); strided 1x1 dX blocked 3.0 against 5.3 for `any`.
std::optional<Plan> search(const ConvShape& s) {
  if (s.y_blocked) return choose_blocked(s);
  const int64_t channels = s.x[1], filters = s.y[1];
  const bool blockable = (s.group == 1 || (s.group == channels && s.group == filters)) &&
                         channels >= 16 && filters >= 16;
  std::vector<Format> order;
  // oneDNN issue 6035: the weight gradient of strided 1x1 with few channels in nhwc, which is what
  // `any` and plain lead to, writes behind its scratchpad.
  const bool unsafe = s.pass == Pass::kWeights && s.pointwise && s.strided && channels < 16;
  if (unsafe) {
    order = {Format::kBlocked};
  } else if (s.pointwise && !s.strided && s.pass != Pass::kWeights) {
    order = {Format::kPlain, Format::kAny};
  } else if (s.strided && blockable && s.pass == Pass::kData) {
    order = {Format::kBlocked, Format::kAny, Format::kPlain};
  } else {
    order = {Format::kAny, Format::kPlain};
  }
  std::optional<Plan> slow;
  for (Format format : order) {
    std::optional<Plan> p = try_formats(s, format, format);
    if (!p || is_slow(s, p->name)) continue;
    if (p->name.find("gemm:") == std::string::npos) return p;
    if (!slow) slow = std::move(p);
  }
  return slow;
}

/// The same convolution is looked at when layouts, rows and kernels are chosen, and descriptors
/// take oneDNN long to make.
std::optional<Plan> choose(const ConvShape& s) {
  constexpr size_t kMost = 1024;
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, std::optional<Plan>> known;
  // A descriptor is made for a number of threads.
  std::vector<int64_t> key = {cpu_threads(),
                              static_cast<int64_t>(s.pass),
                              s.group,
                              s.bias,
                              s.x_blocked,
                              s.y_blocked,
                              static_cast<int64_t>(s.x_type),
                              static_cast<int64_t>(s.w_type),
                              static_cast<int64_t>(s.y_type)};
  for (const Dims* dims :
       {&s.x, &s.w, &s.y, &s.strides, &s.dilations, &s.pads_begin, &s.pads_end}) {
    key.insert(key.end(), dims->begin(), dims->end());
  }
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (known.size() >= kMost) known.clear();
  return known.emplace(std::move(key), search(s)).first->second;
}

Support takes_conv(const NodeView& node) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  const auto [x, w, y] = conv_operands(node);
  const bool bf16 = is_bf16(node.inputs[0]);
  if (bf16 != is_bf16(node.inputs[1])) return Support::no("convolves operands of one type");
  if (!bf16 && is_bf16(node.outputs[0])) return Support::no("gives bfloat16 for bfloat16 only");
  if (node.inputs.size() > 2 && is_bf16(node.inputs[2])) return Support::no("adds a float32 bias");
  if (bf16 && !cpu_runs_bf16()) return Support::no("this processor has no bfloat16 products");
  // A 16x16 filter of 3 channels, ms of dW: 4.8 in bfloat16, 1.5 in float32.
  if (bf16 && w.shape[1] < 16) return Support::no("takes bfloat16 from 16 channels on");
  // 256@14 3x3 in bfloat16 on a processor with AMX, ms of the three passes: nChw16c 22 23 23, nhwc
  // 2 2 4; float32 in nChw16c 13 9 10. Rows before this one have tile kernels.
  if (bf16 && y.layout != Layout::kPlain && cpu_has_amx()) {
    return Support::no(
        "takes no bfloat16 in nChw16c: AMX wants nhwc, and without it float32 is faster");
  }
  const int64_t rank = node.outputs[0].rank();
  if (rank < 3 || rank > 5) return Support::no("takes one to three spatial dims");
  if (w.layout != Layout::kPlain) return Support::no("takes plain weights");
  if (x.layout != y.layout) {
    // oneDNN reads few channels straight from nchw.
    if (y.layout == Layout::kPlain) return Support::no("takes no blocked x with a plain y");
    if (node.op == Op::kConvDataGrad) return Support::no("takes no plain dx with a blocked dy");
    if (x.shape[1] > 4) return Support::no("takes a plain x of up to 4 channels to a blocked y");
  }
  for (const TensorType& t : node.inputs) {
    if (t.size() == 0) return Support::no("takes no empty operands");
  }
  if (node.outputs[0].size() == 0) return Support::no("takes no empty operands");
  return choose(shape_of(node)) ? s : Support::no("oneDNN has no fast kernel for this shape");
}

/// An operand in the caller's layout and in the primitive's; a reorder between them when they
/// differ.
class Bridge {
 public:
  Bridge() = default;
  Bridge(const memory::desc& from, const memory::desc& to, const memory::desc& inside,
         Scratch& scratch)
      : needed_(from != to) {
    if (!needed_) return;
    buffer_ = book(scratch, inside.get_size());
    primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(onednn_engine(), from, onednn_engine(), to, attr);
    work_ = book(scratch, pd.scratchpad_desc().get_size());
    reorder_ = OneDnnPrimitive(
        dnnl::reorder(pd),
        {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
  }

  /// Where the primitive finds an operand that the caller keeps at `address`.
  void* inside(const KernelArgs& args, void* address) const {
    return needed_ ? scratch_at<char>(args, buffer_) : address;
  }
  void enter(const KernelArgs& args, void* address) const {
    if (needed_) move(args, address, scratch_at<char>(args, buffer_));
  }
  void leave(const KernelArgs& args, void* address) const {
    if (needed_) move(args, scratch_at<char>(args, buffer_), address);
  }

 private:
  void move(const KernelArgs& args, void* from, void* to) const {
    reorder_.execute({from, to, scratch_at<char>(args, work_)});
  }

  bool needed_ = false;
  size_t buffer_ = 0, work_ = 0;
  OneDnnPrimitive reorder_;
};

class ConvKernel final : public Kernel {
 public:
  ConvKernel(const ConvShape& s, const Plan& plan, Scratch& scratch)
      : bias_(s.bias), relu_bf16_(s.y_type == memory::data_type::bf16), relu_(s.relu) {
    const auto user = [](const Dims& dims, bool blocked, memory::data_type type) {
      return activations(dims, blocked ? Format::kBlocked : Format::kPlain, type);
    };
    const memory::desc x = user(s.x, s.x_blocked, s.x_type), w = plain(s.w, s.w_type),
                       y = user(s.y, s.y_blocked, s.y_type);
    const auto enter = [&](const memory::desc& outside, const memory::desc& inside) {
      return Bridge(outside, inside, inside, scratch);
    };
    const auto leave = [&](const memory::desc& outside, const memory::desc& inside) {
      return Bridge(inside, outside, inside, scratch);
    };
    std::vector<std::pair<int, memory::desc>> args;
    if (s.pass == Pass::kForward) {
      first_ = enter(x, plan.x);
      second_ = enter(w, plan.w);
      out_ = leave(y, plan.y);
      args = {{DNNL_ARG_SRC, plan.x}, {DNNL_ARG_WEIGHTS, plan.w}, {DNNL_ARG_DST, plan.y}};
    } else if (s.pass == Pass::kData) {
      first_ = enter(y, plan.y);
      second_ = enter(w, plan.w);
      out_ = leave(x, plan.x);
      args = {{DNNL_ARG_DIFF_DST, plan.y}, {DNNL_ARG_WEIGHTS, plan.w}, {DNNL_ARG_DIFF_SRC, plan.x}};
    } else {
      first_ = enter(x, plan.x);
      second_ = enter(y, plan.y);
      out_ = leave(w, plan.w);
      args = {{DNNL_ARG_SRC, plan.x}, {DNNL_ARG_DIFF_DST, plan.y}, {DNNL_ARG_DIFF_WEIGHTS, plan.w}};
    }
    const memory::desc work = plan.pd.scratchpad_desc();
    work_ = book(scratch, work.get_size());
    args.emplace_back(DNNL_ARG_SCRATCHPAD, work);
    if (bias_) args.emplace_back(DNNL_ARG_BIAS, plain({s.y[1]}));
    call_ = OneDnnPrimitive(dnnl::primitive(plan.pd.get()), args);
  }

  void run(const KernelArgs& args) const override {
    void *a = const_cast<void*>(args.in[0]), *b = const_cast<void*>(args.in[1]);
    first_.enter(args, a);
    second_.enter(args, b);
    void *pa = first_.inside(args, a), *pb = second_.inside(args, b),
         *pc = out_.inside(args, args.out[0]), *work = scratch_at<char>(args, work_);
    if (bias_)
      call_.execute({pa, pb, pc, work, const_cast<void*>(args.in[2])});
    else
      call_.execute({pa, pb, pc, work});
    out_.leave(args, args.out[0]);
    relu_in_place(args.out[0], relu_bf16_, relu_);
  }

 private:
  bool bias_, relu_bf16_;
  int64_t relu_;
  Bridge first_, second_, out_;
  OneDnnPrimitive call_;
  size_t work_ = 0;
};

std::unique_ptr<Kernel> plan_conv(const NodeView& node, Scratch& scratch) {
  return guard_onednn("planning a convolution", [&]() -> std::unique_ptr<Kernel> {
    const ConvShape s = shape_of(node);
    return std::make_unique<ConvKernel>(s, *choose(s), scratch);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kConv, "onednn.conv", takes_conv, plan_conv, false, true, true},
    {Op::kConvDataGrad, "onednn.conv_data_grad", takes_conv, plan_conv, false, true, true},
    {Op::kConvWeightGrad, "onednn.conv_weight_grad", takes_conv, plan_conv, false, true, true},
};

}  // namespace

std::span<const KernelRow> conv_rows() { return kRows; }

}  // namespace trainrt
