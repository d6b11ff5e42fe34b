#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

/// All outputs but the gates count, or only the hidden states.
Row layer(Op op, const std::string& name, std::vector<Operand> operands, RecurrentAttrs attrs,
          size_t counted) {
  return {op, name, std::move(operands), [=](Builder& b, std::span<const Var> x) {
            std::vector<Var> y = b.add_all(op, x, attrs);
            y.resize(counted);
            return y;
          }};
}

}  // namespace

std::vector<Row> recurrent_rows() {
  std::vector<Row> rows;
  struct Sizes {
    int64_t steps, batch, hidden;
  };
  for (const Sizes s : {Sizes{4, 3, 5}, Sizes{1, 2, 3}, Sizes{3, 1, 1}, Sizes{2, 0, 3}}) {
    const Operand state = normal({s.batch, s.hidden});
    for (const bool reverse : {false, true}) {
      const std::string name = std::to_string(s.steps) + " steps" + (reverse ? ", reverse" : "");
      const std::vector<Operand> lstm = {normal({s.steps, s.batch, 4 * s.hidden}),
                                         normal({4 * s.hidden, s.hidden}), state, state};
      rows.push_back(layer(Op::kLstm, name, lstm, {.reverse = reverse}, 2));
      rows.push_back(layer(Op::kLstm, name + ", no cells", lstm, {.reverse = reverse}, 1));
      const std::vector<Operand> gru = {normal({s.steps, s.batch, 3 * s.hidden}),
                                        normal({3 * s.hidden, s.hidden}), normal({3 * s.hidden}),
                                        state};
      rows.push_back(layer(Op::kGru, name + ", reset first", gru, {reverse, false}, 1));
      rows.push_back(layer(Op::kGru, name + ", linear first", gru, {reverse, true}, 1));
    }
  }
  return rows;
}

}  // namespace trainrt::test
