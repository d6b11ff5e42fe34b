#include "tests/autodiff/gradcheck.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numeric>

#include "autodiff/autodiff.h"
#include "graph/verify.h"
#include "kernels/reference/evaluate.h"

namespace trainrt::test {
namespace {

Operand drawn(Shape shape, std::function<double(Rng&)> draw) {
  return {[shape, draw](Rng& rng) {
    Tensor t(DType::kFloat64, shape);
    for (double& v : t.data<double>()) v = draw(rng);
    return t;
  }};
}

/// The graph of a row with its gradients, ready to be evaluated at any point.
struct Checked {
  Graph graph;
  std::vector<std::string> input_names;  // per operand
  std::vector<bool> has_gradient;        // per operand
  std::vector<size_t> outputs;           // numbers of the float outputs
};

std::string numbered(const char* prefix, size_t i) { return prefix + std::to_string(i); }

Checked differentiated(const std::vector<Tensor>& operands, const std::vector<bool>& differentiable,
                       const std::vector<size_t>& stands_for, const Build& build) {
  Checked c;
  Builder builder(c.graph);
  std::vector<Var> x, wrt;
  std::vector<size_t> wrt_operand;
  for (size_t i = 0; i < operands.size(); ++i) {
    c.input_names.push_back(numbered("x", i));
    if (stands_for[i] != i) {
      x.push_back(x[stands_for[i]]);
      continue;
    }
    x.push_back(builder.input(
        {c.input_names[i], InputRole::kData, operands[i].dtype(), operands[i].shape()}));
    if (differentiable[i]) {
      wrt.push_back(x.back());
      wrt_operand.push_back(i);
    }
  }
  const std::vector<Var> y = build(builder, x);
  std::vector<Seed> seeds;
  for (size_t i = 0; i < y.size(); ++i) {
    c.graph.add_output(numbered("y", i), y[i].id());
    if (!is_float(y[i].dtype())) continue;
    c.outputs.push_back(i);
    seeds.push_back({y[i], builder.input({numbered("dy", i), InputRole::kGradient, y[i].dtype(),
                                          y[i].shape()})});
  }
  Diagnostics problems;
  const std::vector<Var> gradients = differentiate(builder, seeds, wrt, problems);
  REQUIRE(problems.empty());
  c.has_gradient.assign(operands.size(), false);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (!gradients[i]) continue;
    c.has_gradient[wrt_operand[i]] = true;
    c.graph.add_output(c.input_names[wrt_operand[i]], gradients[i].id(), OutputRole::kGradient);
  }
  verify(c.graph);
  return c;
}

double dot(const Tensor& a, const Tensor& b) {
  const auto x = a.data<double>(), y = b.data<double>();
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

Tensor moved(const Tensor& x, const Tensor& u, double h) {
  Tensor t = x.clone();
  for (int64_t i = 0; i < t.size(); ++i) {
    t.data<double>()[static_cast<size_t>(i)] += h * u.data<double>()[static_cast<size_t>(i)];
  }
  return t;
}

Tensor random_like(const TensorType& type, Rng& rng) { return normal(type.shape).make(rng); }

std::map<std::string, Tensor> named(const Checked& c, const std::vector<Tensor>& operands,
                                    const std::vector<Tensor>& seeds) {
  std::map<std::string, Tensor> inputs;
  for (size_t i = 0; i < operands.size(); ++i) inputs[c.input_names[i]] = operands[i];
  for (size_t i = 0; i < c.outputs.size(); ++i) inputs[numbered("dy", c.outputs[i])] = seeds[i];
  std::erase_if(inputs, [&](const auto& entry) {
    for (NodeId id : c.graph.inputs()) {
      if (std::get<InputAttrs>(c.graph.node(id).attrs).name == entry.first) return false;
    }
    return true;
  });
  return inputs;
}

const TensorType& output_type(const Checked& c, size_t i) {
  return c.graph.type(c.graph.find_output(numbered("y", i), OutputRole::kOutput));
}

}  // namespace

Operand normal(Shape shape) {
  return drawn(std::move(shape), [](Rng& rng) { return std::normal_distribution<double>()(rng); });
}

Operand uniform(Shape shape, double lo, double hi) {
  return drawn(std::move(shape),
               [=](Rng& rng) { return std::uniform_real_distribution<double>(lo, hi)(rng); });
}

Operand away_from(Shape shape, std::vector<double> kinks) {
  return drawn(std::move(shape), [kinks](Rng& rng) {
    std::uniform_real_distribution<double> draw(-2, 2);
    while (true) {
      const double v = draw(rng);
      if (std::all_of(kinks.begin(), kinks.end(),
                      [&](double k) { return std::abs(v - k) > 0.05; })) {
        return v;
      }
    }
  });
}

Operand distinct(Shape shape) {
  return {[shape](Rng& rng) {
    Tensor t(DType::kFloat64, shape);
    const auto data = t.data<double>();
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = 0.1 * (static_cast<double>(i) - 0.5 * static_cast<double>(data.size()));
    }
    std::shuffle(data.begin(), data.end(), rng);
    return t;
  }};
}

Operand values(Shape shape, std::vector<double> data) {
  return {[=](Rng&) { return Tensor::from<double>(std::span<const double>(data), shape); }};
}

Operand ints(Shape shape, std::vector<int64_t> data) {
  return {[=](Rng&) { return Tensor::from<int64_t>(std::span<const int64_t>(data), shape); },
          false};
}

Operand bools(Shape shape, std::vector<int> data) {
  return {[=](Rng&) {
            Tensor t(DType::kBool, shape);
            std::copy(data.begin(), data.end(), static_cast<uint8_t*>(t.raw()));
            return t;
          },
          false};
}

Row node(Op op, std::string name, std::vector<Operand> operands, Attrs attrs) {
  return {op, std::move(name), std::move(operands),
          [op, attrs](Builder& b, std::span<const Var> x) { return b.add_all(op, x, attrs); }};
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (auto family : {elementwise_rows, shape_rows, index_rows, reduction_rows, linear_rows,
                      norm_rows, recurrent_rows, call_rows}) {
    for (Row& row : family()) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<double> doubles(const Tensor& t) {
  const auto data = t.data<double>();
  return {data.begin(), data.end()};
}

void check_gradient(const Row& row, bool shared) {
  constexpr uint64_t kSeed = 20240607;
  INFO("row '" << row.name << "', seed " << kSeed << (shared ? ", operands shared" : ""));
  Rng rng(kSeed);
  std::vector<Tensor> x;
  std::vector<bool> differentiable;
  std::vector<size_t> stands_for;
  for (const Operand& operand : row.operands) {
    x.push_back(operand.make(rng));
    differentiable.push_back(operand.differentiable);
    size_t same = x.size() - 1;
    for (size_t i = 0; shared && i < same; ++i) {
      if (differentiable[i] && differentiable.back() && x[i].shape() == x.back().shape()) same = i;
    }
    stands_for.push_back(same);
  }
  const Checked c = differentiated(x, differentiable, stands_for, row.build);
  REQUIRE_FALSE(c.outputs.empty());
  for (int direction = 0; direction < 3; ++direction) {
    std::vector<Tensor> v, u, ahead = x, behind = x;
    const double h = 1e-5;
    for (size_t i : c.outputs) v.push_back(random_like(output_type(c, i), rng));
    for (size_t i = 0; i < x.size(); ++i) {
      u.push_back(random_like({DType::kFloat64, x[i].shape()}, rng));
      if (!differentiable[i]) continue;
      ahead[i] = moved(x[i], u[i], h);
      behind[i] = moved(x[i], u[i], -h);
    }
    const auto here = evaluate_graph(c.graph, named(c, x, v));
    const auto after = evaluate_graph(c.graph, named(c, ahead, v));
    const auto before = evaluate_graph(c.graph, named(c, behind, v));
    double numeric = 0, exact = 0, size = 0;
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const std::string name = numbered("y", c.outputs[i]);
      numeric += (dot(v[i], after.at(name)) - dot(v[i], before.at(name))) / (2 * h);
      size = std::max(size, std::sqrt(dot(v[i], v[i])));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      if (c.has_gradient[i]) exact += dot(here.at("grad/" + c.input_names[i]), u[i]);
    }
    INFO("direction " << direction << ": numeric " << numeric << ", from the rule " << exact);
    // The floor is what rounding leaves of a gradient that cancels to nothing.
    CHECK(std::abs(numeric - exact) <=
          1e-6 * std::max({std::abs(numeric), std::abs(exact), 1e-3 * size}));
  }
}

std::vector<Tensor> gradients_of(const std::vector<Tensor>& operands, const Build& build,
                                 const std::vector<Tensor>& seeds) {
  std::vector<bool> differentiable;
  std::vector<size_t> stands_for;
  for (const Tensor& t : operands) {
    differentiable.push_back(is_float(t.dtype()));
    stands_for.push_back(stands_for.size());
  }
  const Checked c = differentiated(operands, differentiable, stands_for, build);
  std::vector<Tensor> dy = seeds;
  for (size_t i = dy.size(); i < c.outputs.size(); ++i) {
    const TensorType& type = output_type(c, c.outputs[i]);
    dy.emplace_back(type.dtype, type.shape);
    dy.back().fill(1);
  }
  const auto results = evaluate_graph(c.graph, named(c, operands, dy));
  std::vector<Tensor> gradients(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (c.has_gradient[i]) gradients[i] = results.at("grad/" + c.input_names[i]);
  }
  return gradients;
}

}  // namespace trainrt::test
