// Gradient check: random direction u and co-direction v, float64 on the reference kernels:
// <v, f(x + hu) - f(x - hu)> / 2h against <J'v, u>.
#ifndef TRAINRT_TESTS_AUTODIFF_GRADCHECK_H_
#define TRAINRT_TESTS_AUTODIFF_GRADCHECK_H_

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace trainrt::test {

using Rng = std::mt19937_64;

/// An operand of a row: how its values are drawn, and whether it gets a gradient.
struct Operand {
  std::function<Tensor(Rng&)> make;
  bool differentiable = true;
};

Operand normal(Shape shape);
Operand uniform(Shape shape, double lo, double hi);
/// In [-2, 2], at least 0.05 away from each of the kinks.
Operand away_from(Shape shape, std::vector<double> kinks);
/// Values 0.1 apart in random order: no ties.
Operand distinct(Shape shape);
/// These values; a gradient is asked for.
Operand values(Shape shape, std::vector<double> data);
/// These int64 or bool values.
Operand ints(Shape shape, std::vector<int64_t> data);
Operand bools(Shape shape, std::vector<int> data);

using Build = std::function<std::vector<Var>(Builder&, std::span<const Var>)>;

struct Row {
  Op op;
  std::string name;
  std::vector<Operand> operands;
  Build build;
  /// The row holds too when all differentiable operands of one shape are one value.
  bool shareable = true;
};

/// A row for an op whose operands are just its inputs.
Row node(Op op, std::string name, std::vector<Operand> operands, Attrs attrs = {});

std::vector<Row> elementwise_rows();
std::vector<Row> shape_rows();
std::vector<Row> index_rows();
std::vector<Row> reduction_rows();
std::vector<Row> linear_rows();
std::vector<Row> norm_rows();
std::vector<Row> recurrent_rows();
std::vector<Row> call_rows();
std::vector<Row> all_rows();

/// Compares along three directions to a relative 1e-6; failures are Catch2's.
void check_gradient(const Row& row, bool shared = false);

/// Gradients of sum of <seed_i, output_i> (seed 1 everywhere when `seeds` is empty) for each float
/// operand; an undefined tensor where there is none.
std::vector<Tensor> gradients_of(const std::vector<Tensor>& operands, const Build& build,
                                 const std::vector<Tensor>& seeds = {});

std::vector<double> doubles(const Tensor& t);

}  // namespace trainrt::test

#endif  // TRAINRT_TESTS_AUTODIFF_GRADCHECK_H_
