// Recurrent layers: one direction over all steps, on the product of all inputs (and biases) with
// the input weights.
#include "graph/infer_util.h"

namespace trainrt::infer {
namespace {

struct Sizes {
  int64_t steps, batch, hidden;
  DType dtype;

  TensorType sequence(int64_t parts) const { return {dtype, {steps, batch, parts * hidden}}; }
  TensorType state() const { return {dtype, {batch, hidden}}; }
  TensorType weights(int64_t gates) const { return {dtype, {gates * hidden, hidden}}; }
};

void check_count(const Args& a, size_t lowest, size_t highest) {
  if (a.in.size() < lowest || a.in.size() > highest) {
    fail("takes ", lowest, " to ", highest, " operands, given ", a.in.size());
  }
}

/// Sizes by operand i [steps, batch, parts * hidden].
Sizes sizes(const Args& a, size_t i, int64_t parts) {
  check_float(a, i);
  const TensorType& x = a.in[i];
  if (x.rank() != 3) fail("operand ", i, " must have rank 3, given ", to_string(x));
  if (x.shape[0] < 1) fail("needs at least one step");
  if (x.shape[2] % parts != 0) {
    fail("the last dim of operand ", i, " must be a multiple of ", parts, ", given ", to_string(x));
  }
  return {x.shape[0], x.shape[1], x.shape[2] / parts, x.dtype};
}

Types lstm(const Args& a) {
  check_count(a, 4, 4);
  if (a.attr<RecurrentAttrs>().linear_before_reset) fail("linear_before_reset is Gru's");
  const Sizes s = sizes(a, 0, 4);
  check_same_type(a.in[1], s.weights(4), "the recurrent weights");
  check_same_type(a.in[2], s.state(), "the initial hidden state");
  check_same_type(a.in[3], s.state(), "the initial cell state");
  return {s.sequence(1), s.sequence(1), s.sequence(4)};
}

Types lstm_grad(const Args& a) {
  check_count(a, 7, 8);
  if (a.attr<RecurrentAttrs>().linear_before_reset) fail("linear_before_reset is Gru's");
  const Sizes s = sizes(a, 0, 1);
  check_same_type(a.in[1], s.weights(4), "the recurrent weights");
  check_same_type(a.in[2], s.state(), "the initial hidden state");
  check_same_type(a.in[3], s.state(), "the initial cell state");
  check_same_type(a.in[4], s.sequence(1), "the hidden states");
  check_same_type(a.in[5], s.sequence(1), "the cell states");
  check_same_type(a.in[6], s.sequence(4), "the gates");
  if (a.in.size() > 7) check_same_type(a.in[7], s.sequence(1), "the cell states' gradient");
  return {s.sequence(4), s.weights(4), s.state(), s.state()};
}

Types gru(const Args& a) {
  check_count(a, 4, 4);
  const Sizes s = sizes(a, 0, 3);
  check_same_type(a.in[1], s.weights(3), "the recurrent weights");
  check_same_type(a.in[2], {s.dtype, {3 * s.hidden}}, "the recurrent bias");
  check_same_type(a.in[3], s.state(), "the initial state");
  return {s.sequence(1), s.sequence(4)};
}

Types gru_grad(const Args& a) {
  check_count(a, 5, 5);
  const Sizes s = sizes(a, 0, 1);
  check_same_type(a.in[1], s.weights(3), "the recurrent weights");
  check_same_type(a.in[2], s.state(), "the initial state");
  check_same_type(a.in[3], s.sequence(1), "the states");
  check_same_type(a.in[4], s.sequence(4), "the gates");
  return {s.sequence(3), s.weights(3), {s.dtype, {3 * s.hidden}}, s.state()};
}

constexpr Row kRows[] = {
    {Op::kLstm, lstm},
    {Op::kLstmGrad, lstm_grad},
    {Op::kGru, gru},
    {Op::kGruGrad, gru_grad},
};

}  // namespace

std::span<const Row> recurrent_rows() { return kRows; }

}  // namespace trainrt::infer
