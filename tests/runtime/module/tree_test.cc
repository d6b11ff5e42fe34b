// The tree of modules on files of both of PyTorch's exporters, and what is done to its parts.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "trainrt/module.h"
#include "trainrt/optimizer.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

constexpr const char* kFiles[] = {"tests/runtime/module/hooks_script.onnx",
                                  "tests/runtime/module/hooks_dynamo.onnx"};

std::vector<std::string> names(const std::vector<std::pair<std::string, Module>>& modules) {
  std::vector<std::string> list;
  for (const auto& [name, module] : modules) list.push_back(name);
  return list;
}

using Names = std::vector<std::string>;

TEST_CASE("the tree is that of the framework, whoever exported it",
          "[children][named_children][modules][named_modules][get_submodule]") {
  for (const char* file : kFiles) {
    INFO(file);
    Module model(file);
    CHECK(names(model.named_children()) == Names{"enc", "blocks", "head"});
    CHECK(model.children().size() == 3);
    CHECK(model.children()[1].path() == "blocks");
    const Module enc = model.get_submodule("enc");
    CHECK(names(enc.named_children()) == Names{"l1", "act", "net", "drop", "norm"});
    CHECK(names(enc.get_submodule("net").named_modules(nullptr, "p")) ==
          Names{"p", "p.0", "p.1", "p.2"});
    CHECK(model.modules().size() == 1 + 3 * 9 + 2);
    CHECK(model.modules()[0].path().empty());
    std::set<std::string> memo = {"enc.net"};
    const Names left = names(enc.named_modules(&memo));
    CHECK(std::count(left.begin(), left.end(), "net") == 0);
    CHECK(std::count(left.begin(), left.end(), "net.0") == 1);
    CHECK(memo.contains("enc.norm"));
    CHECK(model.get_submodule("blocks.1.net.2").path() == "blocks.1.net.2");
    CHECK(model.get_submodule("").path().empty());
    const std::string text =
        failure([&] { model.get_submodule("blocks.1.nett.2"); }, ErrorCode::kUsage);
    CHECK(contains(text, "'blocks.1.net.2'"));
  }
}

TEST_CASE("names of Keras and Paddle give a tree as well", "[modules]") {
  Module keras = testing::load(testing::keras_model());
  CHECK(names(keras.named_modules()) == Names{"", "model", "model.dense"});
  CHECK(keras.get_submodule("model.dense").type_name() == "Linear");
  CHECK(keras.get_submodule("model.dense").parameters().size() == 2);
  Module paddle = testing::load(testing::paddle_model());
  CHECK(names(paddle.named_modules()) == Names{"", "linear_0"});
  Module layer = paddle.get_submodule("linear_0");
  CHECK(layer.named_parameters()[0].first == "w_0");
  int calls = 0;
  for (Module m : {keras.get_submodule("model.dense"), layer}) {
    m.register_forward_hook([&](Module&, const Values& args, const Values& outputs) {
      CHECK(args.contains("x"));
      CHECK(outputs.contains("y"));
      ++calls;
    });
  }
  keras.forward({numbers({3, 4}, 1, DType::kFloat32)});
  paddle.forward({numbers({3, 4}, 1, DType::kFloat32)});
  CHECK(calls == 2);
}

TEST_CASE("modules print as a tree with their types and sizes", "[extra_repr]") {
  for (const char* file : kFiles) {
    INFO(file);
    const Module model(file);
    CHECK(model.get_submodule("head").type_name() == "Linear");
    CHECK(model.get_submodule("head").extra_repr() == "in=4, out=2");
    CHECK(model.get_submodule("enc.norm").type_name() == "LayerNorm");
    CHECK(model.get_submodule("enc").extra_repr().empty());
    std::ostringstream out;
    out << model;
    CHECK(contains(out.str(), "\n  (enc): "));
    CHECK(contains(out.str(), "\n      (0): Linear(in=4, out=8)"));
    CHECK(contains(out.str(), "\n  (head): Linear(in=4, out=2)\n)"));
  }
}

TEST_CASE("apply visits children before their parent", "[apply]") {
  Module model(kFiles[0]);
  Names order;
  model.get_submodule("enc").apply([&](Module& m) { order.push_back(m.path()); });
  CHECK(order == Names{"enc.l1", "enc.act", "enc.net.0", "enc.net.1", "enc.net.2", "enc.net",
                       "enc.drop", "enc.norm", "enc"});
}

TEST_CASE("parameters of a part, by names relative to it",
          "[parameters][named_parameters][get_parameter]") {
  for (const char* file : kFiles) {
    INFO(file);
    Module model(file);
    CHECK(model.parameters().size() == 3 * 8 + 2);
    const Module net = model.get_submodule("enc.net");
    const auto named = net.named_parameters("x");
    REQUIRE(named.size() == 4);
    CHECK(named[0].first == "x.0.weight");
    CHECK(named[0].second.name() == "enc.net.0.weight");
    CHECK(net.parameters(false).empty());
    CHECK(model.get_submodule("head").parameters(false).size() == 2);
    CHECK(net.get_parameter("2.bias").name() == "enc.net.2.bias");
    CHECK(net.get_parameter("enc.net.2.bias").name() == "enc.net.2.bias");
    const std::string text = failure([&] { net.get_parameter("2.bia"); }, ErrorCode::kUsage);
    CHECK(contains(text, "the nearest is '2.bias'"));
    failure([&] { net.get_parameter("head.bias"); }, ErrorCode::kUsage);
  }
}

TEST_CASE("a frozen part costs no work and does not move", "[requires_grad_]") {
  Module model(kFiles[0]);
  model.get_submodule("enc").requires_grad_(false);
  const Tensor x = numbers({3, 4}, 1, DType::kFloat32);
  model.forward({x, x});
  model.backward({numbers({3, 2}, 2, DType::kFloat32)});
  for (const auto& [name, p] : model.named_parameters()) {
    CHECK(p.grad().defined() == !name.starts_with("enc."));
  }
  model.get_submodule("enc.norm").requires_grad_();
  model.forward({x, x});
  model.backward({numbers({3, 2}, 2, DType::kFloat32)});
  CHECK(model.get_parameter("enc.norm.weight").grad().defined());
  CHECK(!model.get_parameter("enc.l1.weight").grad().defined());
  model.get_submodule("enc").zero_grad();
  CHECK(!model.get_parameter("enc.norm.weight").grad().defined());
  CHECK(model.get_parameter("head.weight").grad().defined());
}

TEST_CASE("modes are set by part", "[train][eval]") {
  for (const char* file : kFiles) {
    INFO(file);
    Module model(file, exact());
    const Tensor x = numbers({3, 4}, 1);
    CHECK(model.is_training());
    const auto drops = [&](bool mode) {
      for (const char* path : {"enc.drop", "blocks.0", "blocks.1.drop"}) {
        model.get_submodule(path).train(mode);
      }
    };
    // Dropout draws other units in each call in train mode.
    CHECK(largest_difference(model.forward({x, x})[0], model.forward({x, x})[0]) > 0);
    drops(false);
    CHECK(!model.get_submodule("blocks.0.drop").is_training());
    CHECK(model.get_submodule("blocks.1").is_training());
    CHECK(model.is_training());
    const Tensor kept = model.forward({x, x})[0];
    CHECK(largest_difference(model.forward({x, x})[0], kept) == 0);
    model.backward({numbers({3, 2}, 2)});  // train mode all the same
    model.eval();
    CHECK(largest_difference(model.forward({x, x})[0], kept) == 0);
    model.get_submodule("enc.drop").train();
    CHECK(largest_difference(model.forward({x, x})[0], kept) > 0);
    model.train();
    CHECK(model.get_submodule("blocks.0.drop").is_training());
  }
}

TEST_CASE("a Trainer keeps the modes of parts", "[train]") {
  const auto losses = [](bool drop) {
    Module model(kFiles[0]);
    if (!drop) {
      model.apply([](Module& m) {
        if (m.path().ends_with("drop")) m.eval();
      });
    }
    TrainerOptions options;
    options.losses = {"mse"};
    options.lr = 0.0;
    Trainer trainer(model, options);
    const Tensor x = numbers({3, 4}, 1, DType::kFloat32);
    const TensorMap batch = {{"a", x}, {"b", x}, {"target", numbers({3, 2}, 2, DType::kFloat32)}};
    return std::pair(trainer.step(batch).loss, trainer.step(batch).loss);
  };
  const auto [first, second] = losses(false);
  CHECK(first == second);
  const auto [one, other] = losses(true);
  CHECK(one != other);
}

TEST_CASE("a submodule runs within the model only", "[forward][backward]") {
  Module model(kFiles[0]);
  Module enc = model.get_submodule("enc");
  const Tensor x = numbers({3, 4}, 1, DType::kFloat32);
  std::string text = failure([&] { enc.forward({x}); }, ErrorCode::kUsage);
  CHECK(contains(text, "'enc'"));
  failure([&] { enc.backward({x}); }, ErrorCode::kUsage);
  failure([&] { enc.export_onnx("x.onnx"); }, ErrorCode::kUsage);
}

TEST_CASE("nothing can be added to the graph", "[add_module][register_module]") {
  Module model(kFiles[0]), other(kFiles[1]);
  CHECK(contains(failure([&] { model.add_module("x", other); }, ErrorCode::kUnsupported), "'x'"));
  CHECK(contains(failure([&] { model.register_module("x", other); }, ErrorCode::kUnsupported),
                 "set_submodule"));
}

TEST_CASE("another model takes the place of a part", "[set_submodule]") {
  for (const char* file : kFiles) {
    INFO(file);
    Module model(file, exact());
    model.eval();
    // A block as a model of its own: cut out of the same file by its values.
    const Tensor a = numbers({3, 4}, 1), b = numbers({3, 4}, 2);
    Tensor before, after;
    RemovableHandle first = model.get_submodule("head").register_forward_pre_hook(
        [&](Module&, const Values& args) { before = args[0]; });
    model.forward({a, b});
    Module head = testing::load(testing::head_model(model.module().opsets.at("")), exact());
    Parameter kept = model.get_parameter("enc.l1.weight");
    Tensor w = head.get_parameter("fc.weight").value();
    w.data<double>()[3] = 7;  // trained since it was read
    model.set_submodule("head", head);
    model.eval();
    head.eval();
    const Tensor y = model.forward({a, b})[0];
    CHECK(largest_difference(y, head.forward({before})[0]) < 1e-14);
    CHECK(model.get_submodule("head").parameters().size() == 2);
    CHECK(model.get_parameter("head.fc.weight").value().data<double>()[3] == 7);
    failure([&] { model.get_parameter("head.bias"); }, ErrorCode::kUsage);
    kept.value().fill(0);
    CHECK(largest_difference(model.forward({a, b})[0], y) > 0);
    model.train();
    model.forward({a, b});
    model.backward({numbers({3, 2}, 5)});
    CHECK(model.get_parameter("head.fc.bias").grad().defined());
    CHECK(kept.grad().defined());
  }
}

TEST_CASE("handles of what stays are good, those of what went say so", "[set_submodule]") {
  Module model(kFiles[0]);
  Parameter registered = model.register_parameter("scale", Tensor::scalar(2.0f).reshape({1}));
  Parameter gone = model.get_parameter("head.bias");
  Optimizer optimizer(model, "sgd:lr=1");
  model.set_submodule("head", testing::load(testing::head_model()));
  registered.value().fill(5);
  CHECK(model.get_parameter("scale").value().data<float>()[0] == 5);
  CHECK(contains(failure([&] { optimizer.step(); }, ErrorCode::kUsage), "'head.weight'"));
  Optimizer fresh(model, "sgd:lr=1");
  registered.set_grad(Tensor::scalar(1.0f).reshape({1}));
  fresh.step();
  CHECK(model.get_parameter("scale").value().data<float>()[0] == 4);
  CHECK(gone.value().size() == 2);
}

TEST_CASE("a part that does not fit is refused", "[set_submodule]") {
  Module model(kFiles[0]);
  Module two = testing::load(testing::two_output_model());
  std::string text = failure([&] { model.set_submodule("head", two); }, ErrorCode::kInput);
  CHECK(contains(text, "gives a, b"));
  text = failure([&] { model.set_submodule("enc", testing::load(testing::head_model())); },
                 ErrorCode::kUnsupported);
  CHECK(contains(text, "2 times"));
  text = failure([&] { model.set_submodule("hed", two); }, ErrorCode::kUsage);
  CHECK(contains(text, "'head'"));
  model.set_submodule("hed", two, false);
  failure([&] { model.set_submodule("", two); }, ErrorCode::kUsage);
  failure([&] { model.set_submodule("head", model); }, ErrorCode::kUsage);
}

}  // namespace
}  // namespace trainrt
