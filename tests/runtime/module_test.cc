#include "trainrt/module.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>

#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.data<double>().size(); ++i)
    sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

TEST_CASE("forward by name and by position agree with the arithmetic") {
  Module m = testing::load(testing::mlp_model(), exact());
  m.eval();
  const Tensor x = numbers({2, 4}, 7);
  const Outputs out = m.forward({{"x", x}});
  REQUIRE(out.size() == 1);
  CHECK(largest_difference(out["y"], m.forward({x})[0]) == 0);
  const auto w1 = m.get_parameter("fc1.weight").value(), b1 = m.get_parameter("fc1.bias").value();
  const auto w2 = m.get_parameter("fc2.weight").value(), b2 = m.get_parameter("fc2.bias").value();
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = 0; k < 3; ++k) {
      double y = b2.data<double>()[k];
      for (size_t j = 0; j < 8; ++j) {
        double h = b1.data<double>()[j];
        for (size_t c = 0; c < 4; ++c)
          h += x.data<double>()[i * 4 + c] * w1.data<double>()[c * 8 + j];
        y += std::max(h, 0.0) * w2.data<double>()[j * 3 + k];
      }
      CHECK(std::abs(out[0].data<double>()[i * 3 + k] - y) < 1e-13);
    }
  }
}

TEST_CASE("a sequence goes in and comes out by its entries, as many as there are") {
  Module m = testing::load(testing::sequence_model(), exact());
  CHECK(m.inputs()[0].sequence);
  CHECK(m.outputs()[0].sequence);
  m.input_requires_grad_(true);
  const Tensor a = numbers({1, 2}, 1), b = numbers({3, 2}, 2), w = m.get_parameter("w").value();
  const Outputs out = m.forward({{"xs[0]", a}, {"xs[1]", b}});
  REQUIRE(out.size() == 2);
  CHECK(out["ys[1]"].data<double>()[5] == b.data<double>()[5] * w.data<double>()[1]);
  m.backward({{"ys[1]", b}});
  double sum = 0;
  for (size_t i = 1; i < 6; i += 2) sum += b.data<double>()[i] * b.data<double>()[i];
  CHECK(std::abs(m.get_parameter("w").grad().data<double>()[1] - sum) < 1e-15);
  CHECK(m.input_grad("xs[1]").data<double>()[4] == b.data<double>()[4] * w.data<double>()[0]);
  CHECK(m.forward({{"xs[0]", a}}).size() == 1);
  CHECK(m.forward(TensorMap()).size() == 0);
  CHECK(contains(failure([&] { m.forward({{"xs[1]", a}}); }, ErrorCode::kInput), "given xs[1]"));
}

TEST_CASE("outputs belong to the caller and survive later calls") {
  Module m = testing::load(testing::mlp_model(), exact());
  const Outputs first = m.forward({numbers({2, 4}, 1)});
  const Tensor copy = first[0].clone();
  m.forward({numbers({2, 4}, 2)});
  CHECK(largest_difference(first[0], copy) == 0);
  CHECK_THROWS_AS(first[1], Error);
  CHECK(contains(failure([&] { first["z"]; }, ErrorCode::kUsage), "those are y"));
}

TEST_CASE("backward agrees with central differences") {
  Module m = testing::load(testing::mlp_model(), exact());
  m.input_requires_grad_(true);
  const Tensor x = numbers({3, 4}, 3), dy = numbers({3, 3}, 4);
  m.forward({x});
  m.backward({dy});
  const double h = 1e-6;
  auto numeric = [&](Tensor value, size_t i) {
    double& v = value.data<double>()[i];
    const double old = v;
    v = old + h;
    const double up = dot(m.forward({x})[0], dy);
    v = old - h;
    const double down = dot(m.forward({x})[0], dy);
    v = old;
    return (up - down) / (2 * h);
  };
  const Tensor dx = m.input_grad("x");
  std::vector<Tensor> gradients;
  for (Parameter& p : m.parameters()) gradients.push_back(p.grad().clone());
  size_t k = 0;
  for (Parameter& p : m.parameters()) {
    REQUIRE(p.grad().shape() == p.shape());
    for (size_t i = 0; i < static_cast<size_t>(p.size()); i += 3) {
      INFO(p.name() << " " << i);
      CHECK(std::abs(gradients[k].data<double>()[i] - numeric(p.value(), i)) < 1e-7);
    }
    ++k;
  }
  for (size_t i = 0; i < 12; i += 2) CHECK(std::abs(dx.data<double>()[i] - numeric(x, i)) < 1e-7);
}

TEST_CASE("gradients add up until they are dropped") {
  Module m = testing::load(testing::mlp_model(), exact());
  const Tensor x = numbers({3, 4}, 3), dy = numbers({3, 3}, 4);
  Parameter w = m.get_parameter("fc1.weight");
  CHECK_FALSE(w.grad().defined());
  m.forward({x});
  m.backward({dy});
  const Tensor once = w.grad().clone();
  m.forward({x});
  m.backward({dy});
  for (size_t i = 0; i < once.data<double>().size(); ++i) {
    CHECK(w.grad().data<double>()[i] == 2 * once.data<double>()[i]);
  }
  m.zero_grad(false);
  CHECK(w.grad().data<double>()[0] == 0);
  m.zero_grad();
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("gradients of some outputs only, the others count as zero") {
  Module m = testing::load(testing::two_output_model(), exact());
  const Tensor x = numbers({2, 2}, 3), ones = [] {
    Tensor t(DType::kFloat64, {2, 2});
    t.fill(1);
    return t;
  }();
  Parameter w = m.get_parameter("w");
  m.forward({x});
  m.backward({{"a", ones}});
  CHECK(std::abs(w.grad().data<double>()[0] - (x.data<double>()[0] + x.data<double>()[2])) < 1e-15);
  m.zero_grad();
  m.forward({x});
  m.backward({Tensor(), ones});
  const double w0 = w.value().data<double>()[0], x0 = x.data<double>()[0], x2 = x.data<double>()[2];
  CHECK(std::abs(w.grad().data<double>()[0] - (x0 * std::exp(x0 * w0) + x2 * std::exp(x2 * w0))) <
        1e-14);
}

TEST_CASE("backward at the wrong time is a clear error") {
  Module m = testing::load(testing::mlp_model(), exact());
  const Tensor x = numbers({3, 4}, 3), dy = numbers({3, 3}, 4);
  CHECK(contains(failure([&] { m.backward({dy}); }, ErrorCode::kUsage), "forward() first"));
  m.forward({x});
  m.backward({dy});
  CHECK(contains(failure([&] { m.backward({dy}); }, ErrorCode::kUsage), "already"));
  m.eval();
  m.forward({x});
  CHECK(contains(failure([&] { m.backward({dy}); }, ErrorCode::kUsage), "train mode"));
  m.train();
  m.forward({x});
  CHECK(contains(failure([&] { m.backward(); }, ErrorCode::kUsage), "needs a loss"));
}

TEST_CASE("two forwards before a backward: the last counts, the first is refused") {
  Module m = testing::load(testing::mlp_model(), exact());
  const Tensor a = numbers({3, 4}, 3), b = numbers({5, 4}, 5), dy = numbers({5, 3}, 4);
  m.forward({b});
  m.backward({dy});
  const Tensor alone = m.get_parameter("fc1.weight").grad().clone();
  m.zero_grad();
  const Outputs first = m.forward({a});
  const Outputs second = m.forward({b});
  CHECK(contains(failure(
                     [&] {
                       m.backward(first, {{"y", numbers({3, 3})}});
                     },
                     ErrorCode::kUsage),
                 "earlier forward"));
  m.backward(second, {{"y", dy}});
  CHECK(largest_difference(m.get_parameter("fc1.weight").grad(), alone) == 0);
}

TEST_CASE("an evaluation between forward and backward is noticed") {
  Module m = testing::load(testing::mlp_model(), exact());
  m.forward({numbers({3, 4})});
  m.eval();
  m.forward({numbers({3, 4})});
  m.train();
  CHECK_FALSE(failure([&] { m.backward({numbers({3, 3})}); }, ErrorCode::kUsage).empty());
}

TEST_CASE("gradients that do not fit their output are refused") {
  Module m = testing::load(testing::mlp_model(), exact());
  m.forward({numbers({3, 4})});
  CHECK(contains(failure(
                     [&] {
                       m.backward({numbers({3, 2})});
                     },
                     ErrorCode::kInput),
                 "gradient of output y: expected float64[3,3], given float64[3,2]"));
  CHECK(contains(failure([&] { m.backward({{"z", numbers({3, 3})}}); }, ErrorCode::kInput), "'z'"));
  CHECK_FALSE(m.get_parameter("fc1.weight").grad().defined());
  m.backward({numbers({3, 3})});
}

TEST_CASE("an attached loss is an output, and backward() starts from it") {
  Module m = testing::load(testing::mlp_model(), exact());
  m.attach_loss({"cross_entropy"});
  const Tensor x = numbers({3, 4}, 3);
  const Outputs out = m.forward({{"x", x}, {"target", testing::ids({0, 2, 1})}});
  double expected = 0;
  const std::vector<int64_t> target = {0, 2, 1};
  for (size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (size_t k = 0; k < 3; ++k) sum += std::exp(out["y"].data<double>()[i * 3 + k]);
    expected += std::log(sum) - out["y"].data<double>()[i * 3 + static_cast<size_t>(target[i])];
  }
  CHECK(std::abs(out["loss"].item() - expected / 3) < 1e-14);
  m.backward();
  // The bias gradient is softmax minus one-hot, averaged: it sums to zero.
  const Tensor db = m.get_parameter("fc2.bias").grad();
  CHECK(std::abs(db.data<double>()[0] + db.data<double>()[1] + db.data<double>()[2]) < 1e-15);
  CHECK(contains(failure([&] { m.forward({{"x", x}}); }, ErrorCode::kInput), "target"));
}

TEST_CASE("frozen parameters get no gradient") {
  ModuleOptions options = exact();
  options.freeze = {"fc1.*"};
  Module m = testing::load(testing::mlp_model(), options);
  CHECK_FALSE(m.get_parameter("fc1.bias").requires_grad());
  m.forward({numbers({3, 4})});
  m.backward({numbers({3, 3})});
  CHECK_FALSE(m.get_parameter("fc1.weight").grad().defined());
  CHECK(m.get_parameter("fc2.weight").grad().defined());
  m.get_parameter("fc1.bias").requires_grad_(true);
  m.forward({numbers({3, 4})});
  m.backward({numbers({3, 3})});
  CHECK(m.get_parameter("fc1.bias").grad().defined());
  CHECK_FALSE(m.get_parameter("fc1.weight").grad().defined());
}

TEST_CASE("train_only freezes the rest") {
  ModuleOptions options = exact();
  options.train_only = {"*.bias"};
  const Module m = testing::load(testing::mlp_model(), options);
  for (const auto& [name, p] : m.named_parameters())
    CHECK(p.requires_grad() == name.ends_with("bias"));
}

TEST_CASE("batch normalization follows the mode and keeps running statistics") {
  Module m = testing::load(testing::batch_norm_model(), exact());
  const Tensor x = numbers({4, 2, 5}, 9);
  REQUIRE(m.named_buffers().size() == 2);
  CHECK(m.parameters().size() == 2);
  const Tensor mean = m.get_buffer("bn.mean").clone();
  m.eval();
  const Tensor still = m.forward({x})[0];
  CHECK(largest_difference(m.get_buffer("bn.mean"), mean) == 0);
  m.train();
  const Tensor batch = m.forward({x})[0];
  CHECK(largest_difference(still, batch) > 1e-3);
  double average = 0;
  for (size_t n = 0; n < 4; ++n) {
    for (size_t k = 0; k < 5; ++k) average += x.data<double>()[n * 10 + k] / 20;
  }
  const double expected = mean.data<double>()[0] * 0.9 + average * 0.1;
  CHECK(std::abs(m.get_buffer("bn.mean").data<double>()[0] - expected) < 1e-12);
}

TEST_CASE("dropout follows the mode and the seed") {
  auto run = [](uint64_t seed, bool training) {
    ModuleOptions options = exact();
    options.seed = seed;
    Module m = testing::load(testing::dropout_model(), options);
    m.train(training);
    const Tensor first = m.forward({numbers({4, 4}, 2)})[0];
    return std::pair(first, m.forward({numbers({4, 4}, 2)})[0]);
  };
  CHECK(largest_difference(run(1, true).first, run(1, true).first) == 0);
  CHECK(largest_difference(run(1, true).first, run(2, true).first) > 0);
  CHECK(largest_difference(run(1, true).first, run(1, true).second) > 0);  // a new mask each call
  CHECK(largest_difference(run(1, false).first, run(2, false).second) == 0);
}

TEST_CASE("backward redraws the mask that forward drew") {
  Module m = testing::load(testing::dropout_model(), exact());
  const Tensor x = numbers({4, 4}, 2), dy = numbers({4, 3}, 3);
  m.forward({x});
  m.backward({dy});
  // Where the mask dropped a unit, the second layer's weight row has no gradient from that sample:
  // <dy, y - bias> = <dW2, W2> holds for the same mask only.
  Module same = testing::load(testing::dropout_model(), exact());
  Tensor y = same.forward({x})[0];
  const Tensor b = m.get_parameter("fc2.bias").value(), w = m.get_parameter("fc2.weight").value();
  for (size_t i = 0; i < 12; ++i) y.data<double>()[i] -= b.data<double>()[i % 3];
  CHECK(std::abs(dot(dy, y) - dot(m.get_parameter("fc2.weight").grad(), w)) < 1e-13);
}

TEST_CASE("state_dict shares storage and is ordered") {
  Module m = testing::load(testing::batch_norm_model(), exact());
  const StateDict dict = m.state_dict();
  REQUIRE(dict.size() == 4);
  CHECK(dict[0].first == "bn.weight");
  CHECK(dict[0].second.raw() == m.get_parameter("bn.weight").value().raw());
}

TEST_CASE("load_state_dict takes what state_dict gives") {
  Module a = testing::load(testing::mlp_model(), exact());
  Module b = testing::load(testing::mlp_model(), exact());
  for (Parameter& p : a.parameters()) p.value().copy_from(numbers(p.shape(), 77));
  const LoadResult result = b.load_state_dict(a.state_dict());
  CHECK(result.missing.empty());
  CHECK(result.unexpected.empty());
  for (const auto& [name, p] : a.named_parameters()) {
    CHECK(largest_difference(p.value(), b.get_parameter(name).value()) == 0);
  }
}

TEST_CASE("load_state_dict names every fault and changes nothing") {
  Module m = testing::load(testing::mlp_model(), exact());
  const Tensor before = m.get_parameter("fc1.weight").value().clone();
  const StateDict bad = {{"fc1.weight", numbers({4, 8}, 5)},
                         {"fc1.bias", numbers({7})},
                         {"fc3.weight", numbers({2})},
                         {"fc2.weight", testing::ids({1})}};
  const std::string text = failure([&] { m.load_state_dict(bad); }, ErrorCode::kInput);
  CHECK(contains(text, "'fc1.bias': expected shape [8], given [7]"));
  CHECK(contains(text, "'fc2.bias' is missing"));
  CHECK(contains(text, "'fc3.weight' is not in the model"));
  CHECK(contains(text, "given int64"));
  CHECK(largest_difference(m.get_parameter("fc1.weight").value(), before) == 0);
}

TEST_CASE("load_state_dict without strict returns what did not match") {
  Module m = testing::load(testing::mlp_model(), exact());
  const LoadResult r =
      m.load_state_dict({{"fc1.bias", numbers({8}, 5)}, {"other", numbers({1})}}, false);
  CHECK(r.missing == std::vector<std::string>{"fc1.weight", "fc2.weight", "fc2.bias"});
  CHECK(r.unexpected == std::vector<std::string>{"other"});
  CHECK(largest_difference(m.get_parameter("fc1.bias").value(), numbers({8}, 5)) == 0);
  CHECK_THROWS_AS(m.load_state_dict({{"fc1.bias", numbers({7})}}, false), Error);
}

TEST_CASE("unknown names come with the nearest") {
  Module m = testing::load(testing::mlp_model(), exact());
  CHECK(
      contains(failure([&] { m.get_parameter("fc1.weigth"); }, ErrorCode::kUsage), "'fc1.weight'"));
  CHECK_THROWS_AS(m.get_buffer("x"), Error);
  CHECK_THROWS_AS(m.input_grad("x"), Error);
}

TEST_CASE("set_grad holds the gradient against the parameter") {
  Module m = testing::load(testing::mlp_model(), exact());
  Parameter p = m.get_parameter("fc1.bias");
  p.set_grad(numbers({8}));
  CHECK(p.grad().defined());
  CHECK_THROWS_AS(p.set_grad(numbers({7})), Error);
  CHECK_THROWS_AS(p.set_grad(numbers({8}, 1, DType::kFloat32)), Error);
  CHECK_THROWS_AS(Parameter().name(), Error);
}

TEST_CASE("inputs and outputs are described") {
  const Module m = testing::load(testing::mlp_model());
  REQUIRE(m.inputs().size() == 1);
  CHECK(m.inputs()[0].name == "x");
  CHECK(m.inputs()[0].dims == std::vector<int64_t>{-1, 4});
  CHECK(m.inputs()[0].symbols[0] == "n");
  CHECK(m.outputs()[0].name == "y");
}

TEST_CASE("a batch of another size works between others") {
  Module m = testing::load(testing::mlp_model(), exact());
  for (const int64_t n : {3, 1, 3, 8}) {
    m.zero_grad();
    m.forward({numbers({n, 4})});
    m.backward({numbers({n, 3})});
    CHECK(m.get_parameter("fc2.bias").grad().defined());
  }
}

TEST_CASE("check lists nothing for a trainable model, and says when there is nothing to train") {
  CHECK(testing::load(testing::mlp_model()).check().empty());
  CHECK(testing::load(testing::embedding_model()).check().empty());
  const auto problems = testing::load(testing::plain_model()).check();
  REQUIRE(problems.size() == 1);
  CHECK(contains(problems[0].reason, "nothing to train"));
}

TEST_CASE("export writes the trained weights under the same names") {
  const TemporaryFolder folder;
  const std::string path = folder / "out.onnx";
  Module m = testing::load(testing::mlp_model());
  m.get_parameter("fc1.bias").value().fill(0.25);
  m.export_onnx(path);
  const Module back(path);
  CHECK(back.get_parameter("fc1.bias").value().data<float>()[3] == 0.25f);
  CHECK(back.inputs()[0].symbols[0] == "n");
  m.save(folder / "weights");
  Module other = testing::load(testing::mlp_model());
  other.load(folder / "weights");
  CHECK(other.get_parameter("fc1.bias").value().data<float>()[3] == 0.25f);
  Module wrong = testing::load(testing::embedding_model());
  CHECK(contains(failure([&] { wrong.load(folder / "weights"); }, ErrorCode::kInput),
                 "does not fit the model"));
}

TEST_CASE("synthetic inputs have the declared shapes") {
  const Module m = testing::load(testing::mlp_model());
  CHECK(synthetic_inputs(m, 5, 1).at("x").shape() == Shape{5, 4});
  CHECK(synthetic_inputs(m, 5, 1, {{"x", {2, 4}}}).at("x").shape() == Shape{2, 4});
  CHECK_THROWS_AS(synthetic_inputs(m, 0, 1), Error);
  CHECK_THROWS_AS(synthetic_inputs(m, 5, 1, {{"z", {2}}}), Error);
}

}  // namespace
}  // namespace trainrt
