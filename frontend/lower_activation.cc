// Activations. At a kink each formula takes the branch that docs/design.md, "Conventions", names.
#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// x > 0 ? x : otherwise
Var positive_or(Var x, Var otherwise) { return where(greater(x, 0), x, otherwise); }

// exp(min(x, 0)) - 1: never infinite, so that the branch not taken has a finite gradient.
Var expm1_negative(Var x) { return exp(clip(x, -kInf, 0)) - 1.0; }

// 0 and 1 outside the open interval (0, 1): no gradient on the bounds.
Var unit_clip(Var z) {
  const Var zero = z.builder().fill(z.dtype(), 0), one = z.builder().fill(z.dtype(), 1);
  return where(less_equal(z, zero), zero, where(greater_equal(z, one), one, z));
}

void lower_relu(LowerContext& c) {
  const Var x = c.need(0);
  c.set(is_float(x.dtype()) ? relu(x) : maximum(x, c.b.fill(x.dtype(), 0)));
}

void lower_leaky_relu(LowerContext& c) {
  const Var x = c.need(0);
  c.set(positive_or(x, c.attr_float("alpha", 0.01) * x));
}

void lower_prelu(LowerContext& c) {
  const Var x = c.need(0);
  const Var y = positive_or(x, c.need(1) * x);
  if (y.shape() != x.shape()) {
    c.invalid("slope " + to_string(c.in(1).shape()) + " does not broadcast to the input's shape " +
              to_string(x.shape()));
  }
  c.set(y);
}

void lower_elu(LowerContext& c) {
  const Var x = c.need(0);
  c.set(positive_or(x, c.attr_float("alpha", 1.0) * expm1_negative(x)));
}

void lower_selu(LowerContext& c) {
  const Var x = c.need(0);
  const double alpha = c.attr_float("alpha", 1.67326319217681884765625);
  c.set(c.attr_float("gamma", 1.05070102214813232421875) *
        positive_or(x, alpha * expm1_negative(x)));
}

// max(0, x) + min(0, alpha (exp(x / alpha) - 1))
void lower_celu(LowerContext& c) {
  const Var x = c.need(0);
  const double alpha = c.attr_float("alpha", 1.0);
  if (alpha == 0) c.invalid("alpha of Celu is 0");
  c.set(positive_or(x, alpha * expm1_negative(x / alpha)));
}

void lower_thresholded_relu(LowerContext& c) {
  const Var x = c.need(0);
  c.set(where(greater(x, c.attr_float("alpha", 1.0)), x, 0.0));
}

void lower_hard_sigmoid(LowerContext& c) {
  c.set(unit_clip(c.attr_float("alpha", 0.2) * c.need(0) + c.attr_float("beta", 0.5)));
}

// x max(0, min(1, x / 6 + 1 / 2))
void lower_hard_swish(LowerContext& c) {
  const Var x = c.need(0);
  c.set(x * unit_clip(x / 6.0 + 0.5));
}

// x tanh(log(1 + e^x))
void lower_mish(LowerContext& c) {
  const Var x = c.need(0);
  c.set(x * tanh(unary(Op::kSoftplus, x)));
}

void lower_softsign(LowerContext& c) {
  const Var x = c.need(0);
  c.set(x / (abs(x) + 1.0));
}

// x < -lambd: x + bias; x > lambd: x - bias; else 0
void lower_shrink(LowerContext& c) {
  const Var x = c.need(0);
  const double lambd = c.attr_float("lambd", 0.5), bias = c.attr_float("bias", 0.0);
  const auto shifted = [&](double by) {
    return is_float(x.dtype()) ? x + by : cast(cast(x, DType::kFloat64) + by, x.dtype());
  };
  const Var real = is_float(x.dtype()) ? x : cast(x, DType::kFloat64);
  c.set(where(less(real, -lambd), shifted(bias), where(greater(real, lambd), shifted(-bias), 0.0)));
}

void lower_gelu(LowerContext& c) {
  const std::string form = c.attr_string("approximate", "none");
  if (form != "none" && form != "tanh")
    c.invalid("approximate is none or tanh, not '" + form + "'");
  c.set(gelu(c.need(0), form == "tanh"));
}

Var swish(Var x, double alpha) { return x * sigmoid(alpha == 1.0 ? x : alpha * x); }

void lower_swish(LowerContext& c) { c.set(swish(c.need(0), c.attr_float("alpha", 1.0))); }

void lower_swiglu(LowerContext& c) {
  c.set(swish(c.need(0), c.attr_float("alpha", 1.0)) * c.need(1));
}

constexpr LoweringRow kRows[] = {
    {"", "Celu", 12, lower_celu},
    {"", "Elu", 6, lower_elu},
    {"", "Gelu", 20, lower_gelu},
    {"", "HardSigmoid", 6, lower_hard_sigmoid},
    {"", "HardSwish", 14, lower_hard_swish},
    {"", "LeakyRelu", 6, lower_leaky_relu},
    {"", "Mish", 18, lower_mish},
    {"", "PRelu", 7, lower_prelu},
    {"", "Relu", 6, lower_relu},
    {"", "Selu", 6, lower_selu},
    {"", "Shrink", 9, lower_shrink},
    {"", "Sigmoid", 1, lower_unary<Op::kSigmoid>},
    {"", "Softplus", 1, lower_unary<Op::kSoftplus>},
    {"", "Softsign", 1, lower_softsign},
    {"", "SwiGLU", 28, lower_swiglu},
    {"", "Swish", 24, lower_swish},
    {"", "Tanh", 1, lower_unary<Op::kTanh>},
    {"", "ThresholdedRelu", 10, lower_thresholded_relu},
};

}  // namespace

std::span<const LoweringRow> activation_lowerings() { return kRows; }

}  // namespace trainrt::lowering
