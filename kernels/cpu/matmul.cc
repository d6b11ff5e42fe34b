// MatMul on plain row-major operands, by oneDNN and by the tile unit. Transposition is expressed by
// strides and never by a copy: both pack their operands inside, and a reorder costs a fifth of the
// product.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/amx.h"
#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"

namespace trainrt {
namespace {

using Dims = dnnl::memory::dims;

constexpr int64_t kMaxRank = 12;  // DNNL_MAX_NDIMS

Support takes_matmul(const NodeView& node) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  const bool bf16 = is_bf16(node.inputs[0]);
  if (bf16 != is_bf16(node.inputs[1])) return Support::no("multiplies operands of one type");
  if (!bf16 && is_bf16(node.outputs[0])) return Support::no("gives bfloat16 for bfloat16 only");
  if (node.inputs.size() > 2 && is_bf16(node.inputs[2])) return Support::no("adds a float32 bias");
  if (bf16 && !cpu_runs_bf16()) return Support::no("this processor has no bfloat16 products");
  if (node.outputs[0].rank() > kMaxRank) return Support::no("takes tensors up to rank 12");
  const bool plain = node.inputs.size() == 2 && !node.attr<MatMulAttrs>().relu;
  if (node.inputs[0].size() == 0 && !plain) return Support::no("takes no empty inner dim");
  return s;
}

/// Batch dims, batch strides, and the two last dims of one operand as the product reads them.
struct Operand {
  Dims dims, strides;
};

/// Batch dims of both operands over the output's, neighbours merged where both move alike.
struct Problem {
  Operand a, b, c;
};

Problem make_problem(const NodeView& node) {
  const auto& attr = node.attr<MatMulAttrs>();
  const Shape &sa = node.inputs[0].shape, &sb = node.inputs[1].shape, &sc = node.outputs[0].shape;
  const size_t ra = sa.size(), rb = sb.size(), rc = sc.size();
  const int64_t m = sc[rc - 2], n = sc[rc - 1], k = attr.trans_a ? sa[ra - 2] : sa[ra - 1];
  Problem p;
  for (size_t d = 0; d + 2 < rc; ++d) {
    const int64_t size = sc[d];
    if (size == 1) continue;
    const int64_t da = d + ra >= rc ? sa[d + ra - rc] : 1, db = d + rb >= rc ? sb[d + rb - rc] : 1;
    const bool merge = !p.c.dims.empty() && (p.a.dims.back() != 1) == (da != 1) &&
                       (p.b.dims.back() != 1) == (db != 1);
    if (merge) {
      p.a.dims.back() *= da;
      p.b.dims.back() *= db;
      p.c.dims.back() *= size;
    } else {
      p.a.dims.push_back(da);
      p.b.dims.push_back(db);
      p.c.dims.push_back(size);
    }
  }
  // One weight for the whole batch: the batch dim becomes rows.
  int64_t rows = m;
  if (p.c.dims.size() == 1 && p.b.dims[0] == 1 && !attr.trans_a) {
    rows *= p.c.dims[0];
    p.a.dims.clear();
    p.b.dims.clear();
    p.c.dims.clear();
  }
  const auto finish = [](Operand& o, int64_t x, int64_t y, bool trans) {
    int64_t stride = x * y;
    o.strides.resize(o.dims.size());
    for (size_t d = o.dims.size(); d-- > 0;) {
      o.strides[d] = stride;
      stride *= o.dims[d];
    }
    o.dims.insert(o.dims.end(), {x, y});
    o.strides.insert(o.strides.end(), {trans ? 1 : y, trans ? x : 1});
  };
  finish(p.a, rows, k, attr.trans_a);
  finish(p.b, k, n, attr.trans_b);
  finish(p.c, rows, n, false);
  return p;
}

class MatMulKernel final : public Kernel {
 public:
  MatMulKernel(const Problem& p, const NodeView& node, Scratch& scratch)
      : relu_(node.attr<MatMulAttrs>().relu),
        bf16_(is_bf16(node.outputs[0])),
        size_(node.outputs[0].size()) {
    const auto desc = [](const Operand& o, const TensorType& type) {
      return dnnl::memory::desc(o.dims, onednn_type(type), o.strides);
    };
    const auto a = desc(p.a, node.inputs[0]), b = desc(p.b, node.inputs[1]),
               c = desc(p.c, node.outputs[0]);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::memory::desc bias;
    if (node.inputs.size() == 3) {
      Dims dims = p.c.dims;
      std::fill(dims.begin(), dims.end() - 1, 1);
      bias = float_desc(dims, Dims(dims.size(), 1));
    }
    const dnnl::matmul::primitive_desc pd(onednn_engine(), a, b, bias, c, attr);
    scratch_ = book(scratch, pd.scratchpad_desc().get_size());
    std::vector<std::pair<int, dnnl::memory::desc>> args = {
        {DNNL_ARG_SRC, a},
        {DNNL_ARG_WEIGHTS, b},
        {DNNL_ARG_DST, c},
        {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}};
    bias_ = node.inputs.size() == 3;
    if (bias_) args.emplace_back(DNNL_ARG_BIAS, bias);
    call_ = OneDnnPrimitive(dnnl::matmul(pd), args);
  }

  void run(const KernelArgs& args) const override {
    void *a = const_cast<void*>(args.in[0]), *b = const_cast<void*>(args.in[1]),
         *work = scratch_at<char>(args, scratch_);
    if (bias_)
      call_.execute({a, b, args.out[0], work, const_cast<void*>(args.in[2])});
    else
      call_.execute({a, b, args.out[0], work});
    if (relu_) relu_in_place(args.out[0], bf16_, size_);
  }

 private:
  bool bias_ = false, relu_, bf16_;
  int64_t size_;
  OneDnnPrimitive call_;
  size_t scratch_ = 0;
};

std::unique_ptr<Kernel> plan_matmul(const NodeView& node, Scratch& scratch) {
  const size_t bytes = node.outputs[0].bytes();
  if (bytes == 0) return make_kernel([](const KernelArgs&) {});
  if (node.inputs[0].size() == 0) {  // the inner dim is empty
    return make_kernel([bytes](const KernelArgs& args) { std::memset(args.out[0], 0, bytes); });
  }
  return guard_onednn("planning MatMul", [&]() -> std::unique_ptr<Kernel> {
    return std::make_unique<MatMulKernel>(make_problem(node), node, scratch);
  });
}

// Smaller products are at least as fast by oneDNN, which packs less.
constexpr int64_t kLeastForTiles = 1 << 25, kLeastDim = 128;

Support takes_tiles(const NodeView& node) {
  if (!cpu_has_amx()) return Support::no("this processor has no tile unit (AMX-BF16)");
  Support s = takes_matmul(node);
  if (!s.ok) return s;
  if (!is_bf16(node.inputs[0])) return Support::no("takes bfloat16");
  const Problem p = make_problem(node);
  if (p.c.dims.size() > 2) return Support::no("takes no batches");
  const int64_t m = p.c.dims[0], n = p.c.dims[1], k = p.a.dims[1];
  if (std::min({m, n, k}) < kLeastDim || m * n * k < kLeastForTiles) {
    return Support::no("takes products of " + std::to_string(kLeastForTiles) +
                       " multiply-adds and dims of " + std::to_string(kLeastDim) + " on");
  }
  return s;
}

std::unique_ptr<Kernel> plan_tiles(const NodeView& node, Scratch& scratch) {
  const Problem p = make_problem(node);
  AmxProduct product;
  product.a = {p.a.dims[0], p.a.strides[0], p.a.strides[1]};
  product.b = {p.b.dims[1], p.b.strides[1], p.b.strides[0]};
  product.k = p.a.dims[1];
  product.out_bf16 = is_bf16(node.outputs[0]);
  product.relu = node.attr<MatMulAttrs>().relu;
  const AmxMatMul matmul(product);
  const size_t at = book(scratch, matmul.scratch_bytes());
  const bool bias = node.inputs.size() == 3;
  return make_kernel([=](const KernelArgs& args) {
    matmul.run(args.input<uint16_t>(0), args.input<uint16_t>(1), args.out[0],
               bias ? args.input<float>(2) : nullptr, scratch_at<char>(args, at));
  });
}

constexpr KernelRow kRows[] = {
    {Op::kMatMul, "amx.matmul", takes_tiles, plan_tiles, false, false, true},
    {Op::kMatMul, "onednn.matmul", takes_matmul, plan_matmul, false, false, true},
};

}  // namespace

std::span<const KernelRow> matmul_rows() { return kRows; }

}  // namespace trainrt
