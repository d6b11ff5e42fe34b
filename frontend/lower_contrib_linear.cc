// com.microsoft's products and convolutions: with fused activations, of other layouts, of weights
// in few bits.
#include <algorithm>
#include <array>

#include "frontend/lower_contrib.h"
#include "frontend/lower_delegate.h"
#include "frontend/lower_spatial.h"
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

constexpr int64_t kOpset = 22;  // of the default domain's operators that stand for these

// The activation fused into a node, as the operator of that name. FusedConv lists its parameters in
// `activation_params`, the others have an attribute for each.
Var activated(LowerContext& c, Var y) {
  struct Activation {
    std::string_view name;
    std::array<std::string_view, 2> parameters = {};
  };
  static constexpr Activation kActivations[] = {
      {"Celu", {"alpha"}},
      {"Clip", {"min", "max"}},
      {"Elu", {"alpha"}},
      {"Gelu"},
      {"HardSigmoid", {"alpha", "beta"}},
      {"HardSwish"},
      {"LeakyRelu", {"alpha"}},
      {"Relu"},
      {"Selu", {"alpha", "gamma"}},
      {"Sigmoid"},
      {"Softmax"},
      {"Softplus"},
      {"Softsign"},
      {"Tanh"},
      {"ThresholdedRelu", {"alpha"}},
  };
  const std::string name = c.attr_string("activation", "");
  if (name.empty()) return y;
  const auto* known = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const Activation& a) { return a.name == name; });
  if (known == std::end(kActivations)) c.refuse("no_lowering", "the fused activation " + name);
  const std::vector<double> list = c.attr_floats("activation_params", {});
  Delegate inner(c, name, name == "Clip" ? 6 : kOpset, {y});
  inner.own_attributes_only();
  for (size_t i = 0; i < known->parameters.size() && !known->parameters[i].empty(); ++i) {
    const std::string own(known->parameters[i]), outer = "activation_" + own;
    if (i < list.size()) {
      inner.with(own, list[i]);
    } else if (c.has_attr(outer)) {
      inner.with(own, c.attr_float(outer));
    }
  }
  if (name == "Softmax") inner.with("axis", c.attr_int("activation_axis", -1));
  return inner.run();
}

// With transBatch the first axis of [M, batch…, K] goes behind the batch axes.
Var batches_first(Var x) {
  std::vector<int64_t> perm;
  for (int64_t a = 1; a + 1 < x.rank(); ++a) perm.push_back(a);
  perm.push_back(0);
  perm.push_back(x.rank() - 1);
  return transpose(x, perm);
}

// alpha A B of NumPy's matmul, with transposed operands.
Var fused_matmul(LowerContext& c) {
  Var a = c.need(0), b = c.need(1);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  if (a.rank() == 0 || b.rank() == 0) c.invalid("an operand is a scalar");
  if (a.rank() > 2 && c.attr_int("transBatchA", 0) != 0) a = batches_first(a);
  if (b.rank() > 2 && c.attr_int("transBatchB", 0) != 0) b = batches_first(b);
  const MatMulAttrs trans{!row && c.attr_int("transA", 0) != 0,
                          !column && c.attr_int("transB", 0) != 0};
  Var y = matmul(row ? unsqueeze(a, {0}) : a, column ? unsqueeze(b, {1}) : b, trans);
  if (column) y = squeeze(y, {-1});
  if (row) y = squeeze(y, {column ? -1 : -2});
  const double alpha = c.attr_float("alpha", 1.0);
  return alpha == 1.0 ? y : alpha * y;
}

void lower_fused_matmul(LowerContext& c) { c.set(fused_matmul(c)); }

void lower_fused_matmul_activation(LowerContext& c) { c.set(activated(c, fused_matmul(c))); }

void lower_fused_gemm(LowerContext& c) {
  c.set(activated(c, Delegate(c, "Gemm", 13, inputs_of(c)).run()));
}

void lower_gemm_fast_gelu(LowerContext& c) {
  const Var y = Delegate(c, "MatMul", 13, {c.need(0), c.need(1)}).run();
  c.set(gelu(c.has(2) ? y + c.in(2) : y, true));
}

// activation(conv(x, w) + b + z)
Var fused_conv(LowerContext& c, Var x, Var z) {
  Var y = Delegate(c, "Conv", kOpset, {x, c.need(1), c.in(2)}).run();
  if (z) {
    if (z.shape() != y.shape()) {
      c.invalid("Z of shape " + to_string(z.shape()) + " for a result of " + to_string(y.shape()));
    }
    y = y + z;
  }
  return activated(c, y);
}

Var channels_second(Var x) {
  std::vector<int64_t> perm = {0, x.rank() - 1};
  for (int64_t a = 1; a + 1 < x.rank(); ++a) perm.push_back(a);
  return transpose(x, perm);
}

Var channels_last(Var x) {
  std::vector<int64_t> perm = {0};
  for (int64_t a = 2; a < x.rank(); ++a) perm.push_back(a);
  perm.push_back(1);
  return transpose(x, perm);
}

void lower_fused_conv(LowerContext& c) { c.set(fused_conv(c, c.need(0), c.in(3))); }

// The input and Z are channels-last, the weight is not.
void lower_nhwc_conv(LowerContext& c) {
  const Var x = c.need(0), z = c.in(3);
  if (x.rank() < 3 || (z && z.rank() != x.rank())) c.invalid("the input is [N, spatial, C]");
  c.set(channels_last(fused_conv(c, channels_second(x), z ? channels_second(z) : z)));
}

void lower_nhwc_max_pool(LowerContext& c) {
  const Var x = c.need(0);
  if (x.rank() < 3) c.invalid("the input is [N, spatial, C]");
  c.set(channels_last(Delegate(c, "MaxPool", 12, {channels_second(x)}).run()));
}

// Inputs: x, weight, pads, bias.
void lower_conv_transpose_with_pads(LowerContext& c) {
  Delegate inner(c, "ConvTranspose", kOpset, {c.need(0), c.need(1), c.in(3)});
  if (c.has(2)) inner.with("pads", c.ints(2));
  c.set(inner.run());
}

// Numbers of `bits` bits, the low ones of a byte first: [..., n] bytes to [..., n * 8 / bits].
Var unpacked(Var bytes, int64_t bits) {
  Builder& b = bytes.builder();
  const Var wide = cast(bytes, DType::kInt32);
  const auto number = [&](int64_t v) { return b.fill(DType::kInt32, static_cast<double>(v)); };
  if (bits == 8) return wide;
  std::vector<Var> parts;
  for (int64_t shift = 0; shift < 8; shift += bits) {
    const Var rest = shift == 0 ? wide : wide / number(int64_t{1} << shift);
    parts.push_back(unsqueeze(binary(Op::kMod, rest, number(int64_t{1} << bits)), {-1}));
  }
  Shape shape = bytes.shape();
  shape.back() *= 8 / bits;
  return reshape(concat(parts, -1), std::move(shape));
}

int64_t positive(LowerContext& c, std::string_view name, int64_t value) {
  if (value < 1 || value > kMaxConstant) {
    c.invalid(std::string(name) + " is " + std::to_string(value));
  }
  return value;
}

// x W^T + bias, W [N,K] = (q - zero point) scale with a scale and zero point for each block of a
// row. Inputs: x, q [N, blocks, bytes], scales, zero points (packed, or numbers), -, bias.
void lower_matmul_nbits(LowerContext& c) {
  const int64_t n = positive(c, "N", c.attr_int("N")), k = positive(c, "K", c.attr_int("K"));
  const int64_t block = positive(c, "block_size", c.attr_int("block_size"));
  const int64_t bits = c.attr_int("bits", 4), blocks = (k + block - 1) / block;
  if (bits != 2 && bits != 4 && bits != 8) {
    c.refuse("no_lowering", "weights of " + std::to_string(bits) + " bits");
  }
  if (c.has(4)) c.refuse("no_lowering", "MatMulNBits with g_idx");
  if (c.attr_int("weight_prepacked", 0) != 0) {
    c.refuse("no_lowering", "weights packed for one kind of device");
  }
  const Var x = c.need(0), packed = c.need(1);
  if (packed.dtype() != DType::kUInt8 || packed.type().size() != n * blocks * (block * bits / 8) ||
      c.need(2).type().size() != n * blocks) {
    c.invalid("weights " + to_string(packed.shape()) + " and scales " + to_string(c.in(2).shape()) +
              " do not fit N, K and block_size");
  }
  const Shape per_block = {n, blocks, 1};
  Var zero = c.b.fill(c.working, static_cast<double>(int64_t{1} << (bits - 1)));
  if (c.has(3)) {
    Var z = c.in(3);
    if (z.dtype() == DType::kUInt8) {
      const int64_t bytes = (blocks * bits + 7) / 8;
      if (z.type().size() != n * bytes) c.invalid("zero points " + to_string(z.shape()));
      z = slice(unpacked(reshape(z, {n, bytes}), bits), 1, 0, blocks);
    }
    if (z.type().size() != n * blocks) c.invalid("zero points " + to_string(z.shape()));
    zero = cast(reshape(z, per_block), c.working);
  }
  const Var q = unpacked(reshape(packed, {n, blocks, block * bits / 8}), bits);
  const Var w = (cast(q, c.working) - zero) * reshape(c.in(2), per_block);
  const Var rows = slice(reshape(w, {n, blocks * block}), 1, 0, k);
  const Var y = Delegate(c, "MatMul", 13, {x, swap_last(rows)}).run();
  c.set(c.has(5) ? y + c.in(5) : y);
}

// x W^T, or x W. W [N,K], flattened, has a scale for each block; two numbers a byte, the first in
// the high bits, which look up a table.
void lower_matmul_bnb4(LowerContext& c) {
  static constexpr std::array<double, 8> kFp4 = {0,   0.005208333333, 2.0 / 3, 1, 1.0 / 3,
                                                 0.5, 1.0 / 6,        0.25};
  static constexpr std::array<double, 16> kNf4 = {-1.0,
                                                  -0.6961928009986877,
                                                  -0.5250730514526367,
                                                  -0.39491748809814453,
                                                  -0.28444138169288635,
                                                  -0.18477343022823334,
                                                  -0.09105003625154495,
                                                  0.0,
                                                  0.07958029955625534,
                                                  0.16093020141124725,
                                                  0.24611230194568634,
                                                  0.33791524171829224,
                                                  0.44070982933044434,
                                                  0.5626170039176941,
                                                  0.7229568362236023,
                                                  1.0};
  const int64_t n = positive(c, "N", c.attr_int("N")), k = positive(c, "K", c.attr_int("K"));
  const int64_t block = positive(c, "block_size", c.attr_int("block_size"));
  const int64_t kind = c.attr_int("quant_type"), count = n * k,
                blocks = (count + block - 1) / block;
  if (kind != 0 && kind != 1) c.invalid("quant_type is 0 or 1");
  const Var packed = c.need(1), scales = c.need(2);
  if (packed.dtype() != DType::kUInt8 || packed.type().size() != (count + 1) / 2 ||
      scales.type().size() != blocks) {
    c.invalid("weights " + to_string(packed.shape()) + " and scales " + to_string(scales.shape()) +
              " do not fit N, K and block_size");
  }
  Tensor table(DType::kFloat64, {16});
  for (size_t i = 0; i < 16; ++i) {
    table.data<double>()[i] = kind == 1 ? kNf4[i] : i < 8 ? kFp4[i] : -kFp4[i - 8];
  }
  // unpacked() gives low, high, low, high, …
  const Var low_first = reshape(unpacked(reshape(packed, {packed.type().size()}), 4), {-1, 2});
  const Var pair[] = {slice(low_first, 1, 1, 1), slice(low_first, 1, 0, 1)};
  const Var index = slice(reshape(concat(pair, 1), {2 * packed.type().size()}), 0, 0, count);
  const Var values = gather(c.b.constant(table.to(c.working)), cast(index, DType::kInt64), 0);
  const Var spread =
      reshape(expand(reshape(scales, {blocks, 1}), {blocks, block}), {blocks * block});
  const Var w = reshape(values * slice(spread, 0, 0, count), {n, k});
  const bool transposed = c.attr_int("transB", 1) != 0;
  c.set(Delegate(c, "MatMul", 13, {c.need(0), transposed ? swap_last(w) : w}).run());
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {kMs, "ConvTransposeWithDynamicPads", 1, lower_conv_transpose_with_pads},
    {kMs, "FusedConv", 1, lower_fused_conv},
    {kMs, "FusedGemm", 1, lower_fused_gemm},
    {kMs, "FusedMatMul", 1, lower_fused_matmul},
    {kMs, "FusedMatMulActivation", 1, lower_fused_matmul_activation},
    {kMs, "GemmFastGelu", 1, lower_gemm_fast_gelu},
    {kMs, "MatMulBnb4", 1, lower_matmul_bnb4, kFirst},
    {kMs, "MatMulNBits", 1, lower_matmul_nbits, kFirst, "g_idx, prepacked weights"},
    {kMs, "NhwcConv", 1, lower_nhwc_conv},
    {kMs, "NhwcFusedConv", 1, lower_nhwc_conv},
    {kMs, "NhwcMaxPool", 1, lower_nhwc_max_pool},
    {kMs, "TransposeMatMul", 1, lower_fused_matmul},
};

}  // namespace

std::span<const LoweringRow> contrib_linear_lowerings() { return kRows; }

}  // namespace trainrt::lowering
