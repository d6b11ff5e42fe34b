// Losses against values computed by hand, and their gradients against finite differences.
#include "autodiff/loss.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "kernels/reference/evaluate.h"
#include "tests/autodiff/gradcheck.h"

namespace trainrt::test {
namespace {

LossSpec spec_of(LossKind kind) {
  LossSpec spec;
  spec.kind = kind;
  return spec;
}

double loss_value(const LossSpec& spec, const Tensor& y, const Tensor& target) {
  Graph graph;
  Builder b(graph);
  const Var out = b.input({"y", InputRole::kData, y.dtype(), y.shape()});
  std::map<std::string, Tensor> inputs = {{"y", y}};
  Var t;
  if (target.defined()) {
    t = b.input({"t", InputRole::kTarget, target.dtype(), target.shape()});
    inputs["t"] = target;
  }
  const Var loss = build_loss(spec, out, t);
  CHECK(loss.rank() == 0);
  CHECK(loss.dtype() == y.dtype());
  graph.add_output("loss", loss.id(), OutputRole::kLoss);
  return evaluate_graph(graph, inputs).at("loss").item();
}

void check_close(double found, double expected) {
  INFO("found " << found << ", expected " << expected);
  CHECK(std::abs(found - expected) <= 1e-12 * std::max(1.0, std::abs(expected)));
}

void check_loss_gradient(const LossSpec& spec, Operand y, Operand target) {
  check_gradient({Op::kIdentity,
                  std::string(loss_name(spec.kind)),
                  {y, target},
                  [spec](Builder&, std::span<const Var> x) {
                    return std::vector<Var>{build_loss(spec, x[0], x[1])};
                  }});
}

Operand frozen(Operand operand) {
  operand.differentiable = false;
  return operand;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Tensor kLogits = Tensor::from<double>({1, 2, 3, 0, 0, 0}, {2, 3});
// -log softmax of row 0 at 0, 1, 2
const double kNll0 = std::log(std::exp(0.0) + std::exp(1.0) + std::exp(2.0));

TEST_CASE("cross_entropy: mean over rows") {
  const Tensor t = Tensor::from<int64_t>({2, 1}, {2});
  check_close(loss_value(spec_of(LossKind::kCrossEntropy), kLogits, t),
              (kNll0 - 2 + std::log(3.0)) / 2);
}

TEST_CASE("cross_entropy: ignored ids are left out of the mean") {
  const Tensor t = Tensor::from<int64_t>({0, -100}, {2});
  check_close(loss_value(spec_of(LossKind::kCrossEntropy), kLogits, t), kNll0);
}

TEST_CASE("cross_entropy: nothing counts, the loss is NaN as in PyTorch") {
  const Tensor t = Tensor::from<int64_t>({-100, -100}, {2});
  CHECK(std::isnan(loss_value(spec_of(LossKind::kCrossEntropy), kLogits, t)));
}

TEST_CASE("cross_entropy: label smoothing as in PyTorch") {
  LossSpec spec = spec_of(LossKind::kCrossEntropy);
  spec.label_smoothing = 0.3;
  const double uniform0 = kNll0 - 1;  // mean of the three losses of row 0
  check_close(loss_value(spec, kLogits, Tensor::from<int64_t>({2, 0}, {2})),
              (0.7 * (kNll0 - 2) + 0.3 * uniform0 + std::log(3.0)) / 2);
  check_close(loss_value(spec, kLogits, Tensor::from<int64_t>({2, -100}, {2})),
              0.7 * (kNll0 - 2) + 0.3 * uniform0);
}

TEST_CASE("cross_entropy: class axis 1 for rank 4 and 5, else the last") {
  const LossSpec spec = spec_of(LossKind::kCrossEntropy);
  const auto target = [&](Shape shape) {
    return target_type(spec, {DType::kFloat64, std::move(shape)});
  };
  CHECK(target({7, 3}) == TensorType{DType::kInt64, {7}});
  CHECK(target({7, 3, 5}) == TensorType{DType::kInt64, {7, 3}});
  CHECK(target({7, 3, 5, 6}) == TensorType{DType::kInt64, {7, 5, 6}});
  CHECK(target({7, 3, 4, 5, 6}) == TensorType{DType::kInt64, {7, 4, 5, 6}});
  CHECK(target({3}) == TensorType{DType::kInt64, {}});
}

TEST_CASE("cross_entropy: a class axis of one's own, counted from the end too") {
  LossSpec spec = spec_of(LossKind::kCrossEntropy);
  spec.class_axis = 0;
  CHECK(target_type(spec, {DType::kFloat64, {3, 2}}).shape == Shape{2});
  check_close(loss_value(spec, Tensor::from<double>({1, 0, 2, 0, 3, 0}, {3, 2}),
                         Tensor::from<int64_t>({2, 1}, {2})),
              (kNll0 - 2 + std::log(3.0)) / 2);
  spec.class_axis = -2;
  CHECK(target_type(spec, {DType::kFloat64, {3, 2}}).shape == Shape{2});
  spec.class_axis = 2;
  CHECK(contains(message_of([&] {
                   target_type(spec, {DType::kFloat64, {3, 2}});
                 }),
                 "class axis 2"));
}

TEST_CASE("cross_entropy: a column of class ids and other integer types are taken") {
  const Tensor t = Tensor::from<int32_t>({2, 1}, {2, 1});
  check_close(loss_value(spec_of(LossKind::kCrossEntropy), kLogits, t),
              (kNll0 - 2 + std::log(3.0)) / 2);
}

TEST_CASE("nll: on log-probabilities") {
  const Tensor logp = Tensor::from<double>({-1, -2, -3, -0.5}, {2, 2});
  check_close(loss_value(spec_of(LossKind::kNll), logp, Tensor::from<int64_t>({1, 0}, {2})), 2.5);
  check_close(loss_value(spec_of(LossKind::kNll), logp, Tensor::from<int64_t>({1, -100}, {2})), 2);
}

TEST_CASE("mse, l1 and huber") {
  const Tensor y = Tensor::from<double>({1, 2, -3, 0.5}, {2, 2});
  const Tensor t = Tensor::from<double>({1, 0, 0, 0}, {2, 2});
  check_close(loss_value(spec_of(LossKind::kMse), y, t), (0 + 4 + 9 + 0.25) / 4);
  check_close(loss_value(spec_of(LossKind::kL1), y, t), (0 + 2 + 3 + 0.5) / 4);
  check_close(loss_value(spec_of(LossKind::kHuber), y, t), (0 + 1.5 + 2.5 + 0.125) / 4);
}

TEST_CASE("huber: gradient on the seam and at 0") {
  const Tensor t = Tensor::from<double>({0, 0, 0}, {3});
  const auto g = gradients_of(
      {Tensor::from<double>({1, -1, 0}, {3}), t}, [](Builder&, std::span<const Var> x) {
        return std::vector<Var>{3.0 * build_loss(spec_of(LossKind::kHuber), x[0], x[1])};
      });
  const auto found = doubles(g[0]);
  check_close(found[0], 1);
  check_close(found[1], -1);
  check_close(found[2], 0);
}

TEST_CASE("bce_with_logits: stable for large logits") {
  const Tensor y = Tensor::from<double>({0, 1000, -1000, 2}, {4});
  const Tensor t = Tensor::from<double>({0, 1, 1, 0.25}, {4});
  check_close(loss_value(spec_of(LossKind::kBceWithLogits), y, t),
              (std::log(2.0) + 0 + 1000 + std::log1p(std::exp(2.0)) - 0.5) / 4);
}

TEST_CASE("bce_with_logits: gradient at logit 0") {
  const auto g = gradients_of(
      {Tensor::from<double>({0}, {1}), Tensor::from<double>({1}, {1})},
      [](Builder&, std::span<const Var> x) {
        return std::vector<Var>{build_loss(spec_of(LossKind::kBceWithLogits), x[0], x[1])};
      });
  check_close(doubles(g[0])[0], -0.5);
}

TEST_CASE("bce: logarithms are held at -100") {
  const Tensor y = Tensor::from<double>({0.25, 0, 1, 1e-60}, {4});
  const Tensor t = Tensor::from<double>({1, 1, 0, 1}, {4});
  check_close(loss_value(spec_of(LossKind::kBce), y, t), (std::log(4.0) + 100 + 100 + 100) / 4);
}

TEST_CASE("bce: gradients at 0 and 1 are finite") {
  const auto g = gradients_of(
      {Tensor::from<double>({0, 1, 0, 1}, {4}), Tensor::from<double>({0, 1, 1, 0}, {4})},
      [](Builder&, std::span<const Var> x) {
        return std::vector<Var>{4.0 * build_loss(spec_of(LossKind::kBce), x[0], x[1])};
      });
  const auto found = doubles(g[0]);
  check_close(found[0], 1);
  check_close(found[1], -1);
  CHECK(std::isfinite(found[2]));
  CHECK(std::isfinite(found[3]));
}

TEST_CASE("bce: something that is no probability gives NaN rather than a plausible number") {
  CHECK(std::isnan(loss_value(spec_of(LossKind::kBce), Tensor::from<double>({1.5}, {1}),
                              Tensor::from<double>({0.5}, {1}))));
}

TEST_CASE("sum and mean take no target") {
  CHECK_FALSE(needs_target(LossKind::kSum));
  CHECK_FALSE(needs_target(LossKind::kMean));
  check_close(loss_value(spec_of(LossKind::kSum), kLogits, {}), 6);
  check_close(loss_value(spec_of(LossKind::kMean), kLogits, {}), 1);
}

TEST_CASE("losses of a rank-0 output") {
  const Tensor y = Tensor::scalar(3.0), t = Tensor::scalar(1.0);
  check_close(loss_value(spec_of(LossKind::kMse), y, t), 4);
  check_close(loss_value(spec_of(LossKind::kMean), y, {}), 3);
}

TEST_CASE("the weight multiplies the loss") {
  LossSpec spec = spec_of(LossKind::kSum);
  spec.weight = 0.5;
  check_close(loss_value(spec, kLogits, {}), 3);
}

TEST_CASE("float32 outputs give float32 losses, float64 targets are cast") {
  const double found = loss_value(spec_of(LossKind::kMse), Tensor::from<float>({1, 2}, {2}),
                                  Tensor::from<double>({0, 0}, {2}));
  check_close(found, 2.5);
}

TEST_CASE("gradients of the losses on class ids") {
  for (double smoothing : {0.0, 0.1}) {
    for (LossKind kind : {LossKind::kCrossEntropy, LossKind::kNll}) {
      LossSpec spec = spec_of(kind);
      spec.label_smoothing = smoothing;
      check_loss_gradient(spec, normal({3, 4}), ints({3}, {1, -100, 3}));
      check_loss_gradient(spec, normal({1, 3, 2, 2}), ints({1, 2, 2}, {1, 0, 2, 2}));
    }
  }
}

TEST_CASE("gradients of the losses on values") {
  check_loss_gradient(spec_of(LossKind::kMse), normal({3, 4}), normal({3, 4}));
  check_loss_gradient(spec_of(LossKind::kL1), uniform({3, 4}, 0.1, 1), uniform({3, 4}, -1, 0));
  check_loss_gradient(spec_of(LossKind::kHuber), values({4}, {0.5, 2, -3, -0.2}),
                      frozen(values({4}, {0, 0, 0, 0})));
  check_loss_gradient(spec_of(LossKind::kBceWithLogits), normal({3, 4}), uniform({3, 4}, 0, 1));
  check_loss_gradient(spec_of(LossKind::kBce), uniform({3, 4}, 0.1, 0.9),
                      frozen(uniform({3, 4}, 0, 1)));
}

TEST_CASE("gradients of sum and mean") {
  for (LossKind kind : {LossKind::kSum, LossKind::kMean}) {
    check_gradient(
        {Op::kIdentity, "no target", {normal({3, 4})}, [kind](Builder&, std::span<const Var> x) {
           return std::vector<Var>{build_loss(spec_of(kind), x[0], Var())};
         }});
  }
}

TEST_CASE("a target of another length: both lengths and both shapes are named") {
  for (LossKind kind : {LossKind::kCrossEntropy, LossKind::kMse}) {
    const Tensor t =
        kind == LossKind::kMse ? Tensor(DType::kFloat64, {4, 3}) : Tensor(DType::kInt64, {4});
    const std::string text = message_of([&] {
      loss_value(spec_of(kind), Tensor(DType::kFloat64, {5, 3}), t);
    });
    INFO(text);
    CHECK(contains(text, "5 rows of y, 4 targets"));
    CHECK(contains(text, "[5,3]"));
    CHECK(contains(text, to_string(t.shape())));
  }
}

TEST_CASE("a target of another shape: both shapes are named") {
  LossSpec spec = spec_of(LossKind::kMse);
  spec.output = "score";
  const std::string text = message_of([&] {
    loss_value(spec, Tensor(DType::kFloat64, {5, 3}), Tensor(DType::kFloat64, {5}));
  });
  INFO(text);
  CHECK(contains(text, "score"));
  CHECK(contains(text, "[5,3]"));
  CHECK(contains(text, "[5]"));
  CHECK_FALSE(contains(text, "rows"));
}

TEST_CASE("class ids of a float type are refused") {
  CHECK(contains(message_of([&] {
                   loss_value(spec_of(LossKind::kCrossEntropy), kLogits,
                              Tensor(DType::kFloat64, {2}));
                 }),
                 "integer"));
}

TEST_CASE("a loss on an integer output is refused") {
  CHECK(contains(
      message_of([&] { loss_value(spec_of(LossKind::kSum), Tensor(DType::kInt64, {2}), {}); }),
      "float output"));
}

TEST_CASE("parsing losses") {
  CHECK(parse_loss("mse").kind == LossKind::kMse);
  CHECK(parse_loss("mse").weight == 1);
  CHECK(parse_loss("mse").output.empty());
  const LossSpec spec = parse_loss("cross_entropy:logits*0.25");
  CHECK(spec.kind == LossKind::kCrossEntropy);
  CHECK(spec.output == "logits");
  CHECK(spec.weight == 0.25);
  CHECK(parse_loss("l1:Identity:0").output == "Identity:0");
  for (LossKind kind :
       {LossKind::kCrossEntropy, LossKind::kNll, LossKind::kMse, LossKind::kL1, LossKind::kHuber,
        LossKind::kBceWithLogits, LossKind::kBce, LossKind::kSum, LossKind::kMean}) {
    CHECK(parse_loss(std::string(loss_name(kind))).kind == kind);
  }
}

TEST_CASE("parsing losses: what is wrong is named with what is known") {
  CHECK(contains(message_of([] { parse_loss("msee"); }), "'msee'"));
  CHECK(contains(message_of([] { parse_loss("msee"); }), "bce_with_logits"));
  CHECK(contains(message_of([] { parse_loss("mse*heavy"); }), "heavy"));
  CHECK(contains(message_of([] { parse_loss("mse*1e999"); }), "1e999"));
  CHECK(contains(message_of([] { parse_loss("mse:"); }), "output"));
  CHECK_FALSE(message_of([] { parse_loss(""); }).empty());
  CHECK_FALSE(message_of([] { parse_loss("mse*nan"); }).empty());
}

}  // namespace
}  // namespace trainrt::test
