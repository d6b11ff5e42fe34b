// State, buffers and what else a module offers beside running.
#include <catch2/catch_test_macros.hpp>
#include <fstream>

#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

constexpr const char* kFile = "tests/runtime/module/hooks_script.onnx";

std::vector<std::string> keys(const StateDict& dict) {
  std::vector<std::string> list;
  for (const auto& [key, value] : dict) list.push_back(key);
  return list;
}

StateDict cloned(StateDict dict) {
  for (auto& [key, value] : dict) value = value.clone();
  return dict;
}

TEST_CASE("a model is loaded from a file, from bytes, with options or debug options",
          "[Module][module]") {
  TemporaryFolder folder;
  DebugOptions debug;
  debug.save_onnx = true;
  debug.onnx_prefix = "net";
  debug.save_path = folder.path();
  {
    Module model(kFile, debug);
    const Tensor x = numbers({3, 4}, 1, DType::kFloat32);
    model.forward({x, x});
    Module again(folder.path() + "/net.onnx");
    CHECK(again.parameters().size() == model.parameters().size());
  }
  for (const char* stage : {"specialized", "joint", "planned"}) {
    std::ifstream file(folder.path() + "/net_" + stage + "_0.txt");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CHECK(contains(text, "MatMul"));
  }
  debug.onnx_prefix.clear();
  failure([&] { Module(kFile, debug); }, ErrorCode::kUsage);
  struct Proto {
    std::string SerializeAsString() const { return testing::mlp_model(); }
  };
  CHECK(Module::from_proto(Proto()).parameters().size() == 4);
  const ModelInfo info = Module(kFile).module();
  CHECK(info.producer == "pytorch");
  CHECK(info.opsets.at("") == 17);
  CHECK(info.op_counts.at("Gemm") > 0);
  CHECK(contains(info.graph, "enc.l1.weight"));
  Module copy = testing::load(testing::mlp_model());
  Module same = copy;
  same.get_parameter("fc1.bias").value().fill(3);
  CHECK(copy.get_parameter("fc1.bias").value().data<float>()[0] == 3);
}

TEST_CASE("a state dict of a part has relative keys and goes back",
          "[state_dict][load_state_dict]") {
  Module model(kFile);
  Module net = model.get_submodule("enc.net");
  CHECK(keys(net.state_dict()) ==
        std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(keys(net.state_dict("p"))[0] == "p.0.weight");
  CHECK(keys(model.state_dict())[0] == "enc.l1.weight");
  const StateDict before = cloned(net.state_dict());
  net.get_parameter("0.bias").value().fill(5);
  StateDict some = before;
  some.pop_back();
  std::string text = failure([&] { net.load_state_dict(some); }, ErrorCode::kInput);
  CHECK(contains(text, "'enc.net.2.bias' is missing"));
  CHECK(net.get_parameter("0.bias").value().data<float>()[0] == 5);
  CHECK(net.load_state_dict(some, false).missing == std::vector<std::string>{"enc.net.2.bias"});
  CHECK(net.get_parameter("0.bias").value().data<float>()[0] != 5);
  some = before;
  some.emplace_back("head.bias", Tensor(DType::kFloat32, {2}));
  text = failure([&] { net.load_state_dict(some); }, ErrorCode::kInput);
  CHECK(contains(text, "'head.bias' is not in the model"));
  some = before;
  some[1].second = Tensor(DType::kFloat32, {3});
  text = failure([&] { net.load_state_dict(some); }, ErrorCode::kInput);
  CHECK(contains(text, "[8]"));
  CHECK(contains(text, "[3]"));
}

TEST_CASE("hooks of the state see and change it",
          "[register_state_dict_pre_hook][register_state_dict_post_hook]"
          "[register_load_state_dict_pre_hook][register_load_state_dict_post_hook]") {
  Module model(kFile);
  Module net = model.get_submodule("enc.net");
  std::string order;
  net.register_state_dict_pre_hook(
      [&](Module& m, const std::string& prefix) { order += m.path() + ":" + prefix + " "; });
  RemovableHandle post =
      net.register_state_dict_post_hook([&](Module&, StateDict& dict, const std::string&) {
        order += "post ";
        dict.emplace_back("version", Tensor::scalar(1.0f));
      });
  model.register_state_dict_post_hook([&](Module&, StateDict& dict, const std::string&) {
    CHECK(keys(dict).back() == "version");  // children come first
    order += "root ";
  });
  const StateDict dict = model.state_dict();
  CHECK(order == "enc.net:enc.net post root ");
  CHECK(keys(dict).back() == "version");
  failure([&] { model.load_state_dict(dict); }, ErrorCode::kInput);
  RemovableHandle post_load =
      model.register_load_state_dict_post_hook([&](Module&, LoadResult& result) {
        CHECK(result.unexpected == std::vector<std::string>{"version"});
        result.unexpected.clear();
      });
  model.load_state_dict(dict);
  post_load.remove();
  model.register_load_state_dict_pre_hook([&](Module&, StateDict& values, bool strict) {
    CHECK(strict);
    std::erase_if(values, [](const auto& entry) { return entry.first == "version"; });
  });
  model.load_state_dict(dict);
  post.remove();
  order.clear();
  net.state_dict();
  CHECK(order == "enc.net: ");
}

TEST_CASE("registered buffers and parameters are part of the state",
          "[register_buffer][register_parameter][get_buffer][buffers][named_buffers]") {
  TemporaryFolder folder;
  Module model = testing::load(testing::batch_norm_model());
  CHECK(model.buffers().size() == 2);
  CHECK(model.named_buffers("p")[0].first == "p.bn.mean");
  CHECK(model.get_buffer("bn.var").size() == 2);
  CHECK(contains(failure([&] { model.get_buffer("bn.vra"); }, ErrorCode::kUsage), "'bn.var'"));
  Tensor count = model.register_buffer("count", Tensor::from<float>({1, 2}, {2}));
  model.register_buffer("scratch", Tensor::from<double>({3}, {1}), false);
  Parameter scale = model.register_parameter("scale", Tensor::from<float>({4}, {1}));
  CHECK(model.get_buffer("count").data<float>()[1] == 2);
  CHECK(model.get_buffer("scratch").dtype() == DType::kFloat32);
  CHECK(model.parameters().size() == 3);
  const auto list = keys(model.state_dict());
  CHECK(list ==
        std::vector<std::string>{"bn.weight", "bn.bias", "scale", "bn.mean", "bn.var", "count"});
  failure([&] { model.register_buffer("count", count); }, ErrorCode::kUsage);
  failure([&] { model.register_parameter("a.b", count); }, ErrorCode::kUsage);
  failure([&] { model.register_parameter("", count); }, ErrorCode::kUsage);
  failure([&] { model.register_buffer("ids", testing::ids({1})); }, ErrorCode::kInput);

  const std::string path = folder.path() + "/state";
  model.save(path);
  count.fill(9);
  scale.value().fill(9);
  model.load(path);
  CHECK(model.get_buffer("count").data<float>()[1] == 2);
  CHECK(scale.value().data<float>()[0] == 4);
  // Training goes on beside it.
  const Tensor x = numbers({4, 2, 3}, 1, DType::kFloat32);
  model.forward({x});
  model.backward({x});
  CHECK(!scale.grad().defined());
  model.export_onnx(folder.path() + "/model.onnx");
  CHECK(Module(folder.path() + "/model.onnx").parameters().size() == 2);
}

TEST_CASE("extra states travel in dicts and checkpoints",
          "[get_extra_state][set_extra_state][save][load]") {
  TemporaryFolder folder;
  Module model(kFile), other(kFile);
  model.get_submodule("enc").set_extra_state(std::string("a\0b", 3));
  model.set_extra_state("root");
  const StateDict dict = model.state_dict();
  CHECK(keys(dict).back() == "enc._extra_state");
  other.load_state_dict(dict);
  CHECK(other.get_submodule("enc").get_extra_state() == std::string("a\0b", 3));
  CHECK(other.get_extra_state() == "root");
  CHECK(other.get_submodule("head").get_extra_state().empty());
  const std::string path = folder.path() + "/state";
  model.save(path);
  Module third(kFile);
  third.load(path);
  CHECK(third.get_extra_state() == "root");
  TrainerOptions options;
  options.losses = {"mse"};
  Trainer trainer(model, options);
  trainer.save_checkpoint(path);
  Module fourth(kFile);
  Trainer resumed(fourth, options);
  resumed.load_checkpoint(path);
  CHECK(fourth.get_extra_state() == "root");
}

TEST_CASE("plans can be made ahead of the first call", "[compile][attach_loss]") {
  Module model(kFile);
  const PlanStats stats = model.compile({{"a", {3, 4}}, {"b", {3, 4}}});
  CHECK(stats.nodes > 0);
  CHECK(stats.flops > 0);
  model.attach_loss({"mse"});
  CHECK(model.compile({{"a", {3, 4}}, {"b", {3, 4}}}).nodes > stats.nodes);
  failure([&] { model.compile({{"c", {5, 4}}}); }, ErrorCode::kUsage);
  failure([&] { model.compile({{"a", {5, 3}}, {"b", {5, 3}}}); }, ErrorCode::kInput);
}

TEST_CASE("the attached loss gives the gradients", "[forward][backward][zero_grad]") {
  Module model = testing::load(testing::mlp_model(), exact());
  const Tensor x = numbers({2, 4}, 1), target = numbers({2, 3}, 2);
  const Tensor y = model.forward({x})[0];
  Tensor dy = y.clone();
  double loss = 0;
  for (size_t i = 0; i < 6; ++i) {
    const double d = y.data<double>()[i] - target.data<double>()[i];
    loss += d * d / 6;
    dy.data<double>()[i] = d / 3;
  }
  model.backward({dy});
  const Tensor grad = model.get_parameter("fc1.weight").grad().clone();
  model.zero_grad(false);
  CHECK(largest_difference(model.get_parameter("fc1.weight").grad(), grad) > 0);
  CHECK(model.get_parameter("fc1.weight").grad().data<double>()[0] == 0);
  model.zero_grad();
  CHECK(!model.get_parameter("fc1.weight").grad().defined());
  model.attach_loss({"mse"});
  const Outputs out = model({{"x", x}, {"target", target}});
  CHECK(std::abs(out["loss"].item() - loss) < 1e-14);
  model.backward();
  CHECK(largest_difference(model.get_parameter("fc1.weight").grad(), grad) < 1e-14);
}

TEST_CASE("obstacles are listed before anything runs", "[check][export_onnx]") {
  CHECK(Module(kFile).check().empty());
  const std::vector<Problem> problems = testing::load(testing::plain_model()).check();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].kind == "nothing_to_train");
  TemporaryFolder folder;
  Module model(kFile);
  model.get_parameter("head.bias").value().fill(2);
  model.export_onnx(folder.path() + "/m.onnx");
  Module again(folder.path() + "/m.onnx");
  CHECK(again.get_parameter("head.bias").value().data<float>()[1] == 2);
}

TEST_CASE("names of outputs spell out lists and maps", "[forward]") {
  const auto one = [](float v) { return Tensor::scalar(v); };
  const Values values(
      {{"a.0", one(1)}, {"a.1.x", one(2)}, {"b", one(3)}, {"s[0]", one(4)}, {"c.1", one(5)}});
  const Nested nested = values.nested();
  CHECK(nested["a"][0].tensor.item() == 1);
  CHECK(nested["a"][1]["x"].tensor.item() == 2);
  CHECK(nested["b"].is_tensor());
  CHECK(nested["s"].items.size() == 1);
  CHECK(nested["c"]["1"].tensor.item() == 5);
  failure([&] { nested["a"][2]; }, ErrorCode::kUsage);
  CHECK(contains(failure([&] { nested["d"]; }, ErrorCode::kUsage), "a, b, c, s"));
}

}  // namespace
}  // namespace trainrt
