// Dropout and the random generators.
#include "frontend/lower_util.h"

namespace trainrt {
namespace lowering {
namespace {

// Inverted dropout in train mode, the identity otherwise. The mode is the caller's: training_mode
// and is_test are what the exporter froze.
void lower_dropout(LowerContext& c) {
  const Var x = c.need(0);
  const bool drops = c.options.training && c.options.dropout;
  double ratio = 0;
  if (drops && c.opset < 12) ratio = c.attr_float("ratio", 0.5);
  if (drops && c.opset >= 12) ratio = c.has(1) ? c.number(1) : 0.5;
  if (!(ratio >= 0 && ratio <= 1))
    c.invalid("ratio " + std::to_string(ratio) + " is not in [0, 1]");

  const bool with_mask = c.wants(1);
  Var mask;
  if (ratio == 0 || ratio == 1) {
    c.set(0, ratio == 0 ? x : full_like(x, 0));
    if (with_mask) mask = c.b.fill(DType::kBool, ratio == 0 ? 1 : 0, x.shape());
  } else {
    const DropoutAttrs attrs{ratio, c.next_stream()};
    c.set(0, c.b.add(Op::kDropout, {x, c.rng()}, attrs));
    // The same stream drops the same elements.
    if (with_mask) mask = greater(c.b.add(Op::kDropout, {full_like(x, 1), c.rng()}, attrs), 0.0);
  }
  if (with_mask) c.set(1, c.opset < 10 ? cast(mask, x.dtype()) : mask);
}

DType random_dtype(const LowerContext& c, DType otherwise) {
  const DType dtype = c.has_attr("dtype") ? c.attr_dtype("dtype") : otherwise;
  if (!is_float(dtype)) {
    c.invalid("random numbers are floating point, not " + std::string(dtype_name(dtype)));
  }
  return dtype;
}

template <RandomKind kKind>
void set_random(LowerContext& c, DType dtype, Shape shape) {
  RandomAttrs attrs;
  attrs.kind = kKind;
  attrs.dtype = dtype;
  attrs.shape = std::move(shape);
  const bool uniform = kKind == RandomKind::kUniform;
  attrs.a = c.attr_float(uniform ? "low" : "mean", 0.0);
  attrs.b = c.attr_float(uniform ? "high" : "scale", 1.0);
  attrs.stream = c.next_stream();
  c.set(c.b.add(Op::kRandom, {c.rng()}, attrs));
}

template <RandomKind kKind>
void lower_random(LowerContext& c) {
  set_random<kKind>(c, random_dtype(c, c.working), c.attr_ints("shape"));
}

template <RandomKind kKind>
void lower_random_like(LowerContext& c) {
  const Var x = c.need(0);
  set_random<kKind>(c, random_dtype(c, x.dtype()), x.shape());
}

// 1 with probability p: a uniform number of [0, 1) lies below p.
void lower_bernoulli(LowerContext& c) {
  const Var p = c.need(0);
  RandomAttrs attrs;
  attrs.dtype = p.dtype();
  attrs.shape = p.shape();
  attrs.stream = c.next_stream();
  const Var hit = less(c.b.add(Op::kRandom, {c.rng()}, attrs), p);
  c.set(cast(hit, c.has_attr("dtype") ? c.attr_dtype("dtype") : p.dtype()));
}

// The largest of x_k - log(-log u_k) is at k with probability softmax(x)_k, for uniform u.
void lower_multinomial(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t samples = c.attr_int("sample_size", 1);
  const DType type = c.has_attr("dtype") ? c.attr_dtype("dtype") : DType::kInt32;
  if (x.rank() != 2 || x.dim(1) < 1) {
    c.invalid("the input is [batch,classes], given " + to_string(x.shape()));
  }
  if (samples < 0 || (type != DType::kInt32 && type != DType::kInt64)) {
    c.invalid("class ids are a number of int32 or int64");
  }
  RandomAttrs attrs;
  attrs.dtype = x.dtype();
  attrs.shape = {x.dim(0), samples, x.dim(1)};
  attrs.stream = c.next_stream();
  const Var u = c.b.add(Op::kRandom, {c.rng()}, attrs);
  const Var score = unsqueeze(x, {1}) - log(-log(u));
  c.set(cast(c.b.add(Op::kArgMax, {score}, ArgAttrs{2, false, false}), type));
}

constexpr LoweringRow kRows[] = {
    {"", "Dropout", 1, lower_dropout, GradInputs::kFirst},
    {"", "RandomUniform", 1, lower_random<RandomKind::kUniform>, GradInputs::kNone},
    {"", "RandomNormal", 1, lower_random<RandomKind::kNormal>, GradInputs::kNone},
    {"", "RandomUniformLike", 1, lower_random_like<RandomKind::kUniform>, GradInputs::kNone},
    {"", "RandomNormalLike", 1, lower_random_like<RandomKind::kNormal>, GradInputs::kNone},
    {"", "Bernoulli", 15, lower_bernoulli, GradInputs::kNone},
    {"", "Multinomial", 7, lower_multinomial, GradInputs::kNone},
};

}  // namespace
}  // namespace lowering

std::span<const LoweringRow> random_lowerings() { return lowering::kRows; }

}  // namespace trainrt
