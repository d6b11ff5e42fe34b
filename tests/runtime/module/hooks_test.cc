#include "runtime/module/hooks.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <sstream>

#include "tests/runtime/models.h"
#include "tests/support/failure.h"
#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::exact;
using testing::failure;
using testing::largest_difference;
using testing::numbers;

struct Event {
  std::string what;
  std::vector<Tensor> a, b;
};

std::vector<Tensor> list(const Values& values) {
  std::vector<Tensor> tensors;
  for (const auto& [name, value] : values) tensors.push_back(value);
  return tensors;
}

/// Hooks of all four kinds on every module, which note what they see.
void watch(Module& model, std::vector<Event>& events) {
  for (Module& m : model.modules()) {
    if (m.path() == "blocks") continue;  // a list of modules, which is never called
    const std::string path = m.path();
    m.register_forward_pre_hook([&events, path](Module&, const Values& args) {
      events.push_back({"pre " + path, list(args), {}});
    });
    m.register_forward_hook([&events, path](Module&, const Values& args, const Values& outputs) {
      events.push_back({"post " + path, list(args), list(outputs)});
    });
    m.register_full_backward_pre_hook([&events, path](Module&, const Values& grads) {
      events.push_back({"bpre " + path, list(grads), {}});
    });
    m.register_full_backward_hook(
        [&events, path](Module&, const Values& grad_inputs, const Values& grad_outputs) {
          events.push_back({"back " + path, list(grad_outputs), list(grad_inputs)});
        });
  }
}

void check_values(const TensorMap& expected, const std::string& prefix,
                  const std::vector<Tensor>& values) {
  for (size_t k = 0; k < values.size(); ++k) {
    const auto found = expected.find(prefix + std::to_string(k));
    INFO(prefix << k);
    REQUIRE(values[k].defined() == (found != expected.end()));
    if (values[k].defined()) CHECK(largest_difference(values[k], found->second) < 1e-12);
  }
  CHECK(!expected.contains(prefix + std::to_string(values.size())));
}

TEST_CASE("hooks on every module see what PyTorch's see, in its order",
          "[register_forward_pre_hook][register_forward_hook][register_full_backward_pre_hook]"
          "[register_full_backward_hook]") {
  const TensorMap expected = load_npz("tests/runtime/module/hooks.npz");
  const auto bytes = expected.at("order").data<uint8_t>();
  std::istringstream lines(std::string(bytes.begin(), bytes.end()));
  std::vector<std::string> order;
  for (std::string line; std::getline(lines, line);) order.push_back(line);
  for (const char* file :
       {"tests/runtime/module/hooks_script.onnx", "tests/runtime/module/hooks_dynamo.onnx"}) {
    INFO(file);
    Module model(file, exact());
    std::vector<Event> events;
    watch(model, events);
    model.get_submodule("enc.drop").eval();
    model.get_submodule("blocks.0.drop").eval();
    model.get_submodule("blocks.1.drop").eval();
    model.input_requires_grad_(true);
    model.forward({expected.at("a"), expected.at("b")});
    model.backward({expected.at("dy")});
    REQUIRE(events.size() == order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      INFO(i << ": " << order[i]);
      REQUIRE(events[i].what == order[i]);
      const std::string prefix = "e" + std::to_string(i);
      check_values(expected, prefix + "_a", events[i].a);
      check_values(expected, prefix + "_b", events[i].b);
    }
    for (const auto& [name, value] : expected) {
      if (!name.starts_with("grad/")) continue;
      const Parameter p = model.get_parameter(name.substr(5));
      CHECK(largest_difference(p.grad(), value) < 1e-12);
    }
  }
}

TEST_CASE("a module whose inputs need no gradient tells its backward hooks so") {
  const TensorMap expected = load_npz("tests/runtime/module/hooks.npz");
  Module model("tests/runtime/module/hooks_script.onnx", exact());
  std::vector<Event> events;
  Module enc = model.get_submodule("enc");
  enc.register_full_backward_hook([&](Module& m, const Values& grad_inputs, const Values& grads) {
    CHECK(m.path() == "enc");
    events.push_back({"back", list(grads), list(grad_inputs)});
  });
  model.forward({expected.at("a"), expected.at("b")});
  model.backward({expected.at("dy")});
  REQUIRE(events.size() == 2);
  for (const Event& e : events) {
    REQUIRE(e.b.size() == 1);
    CHECK(!e.b[0].defined());
    CHECK(e.a[0].defined());
  }
}

TEST_CASE("a hook replaces arguments, outputs and gradients") {
  // y = fc2(relu(fc1(x))): the root's arguments and results are those of the model.
  Module model = testing::load(testing::mlp_model(), exact());
  const Tensor x = numbers({2, 4}, 7), other = numbers({2, 4}, 8), dy = numbers({2, 3}, 9);
  const Tensor plain = model.forward({other})[0];
  RemovableHandle pre = model.register_forward_pre_hook(
      [&](Module&, const Values&) { return std::vector<Tensor>{other}; });
  CHECK(largest_difference(model.forward({x})[0], plain) == 0);
  RemovableHandle post = model.register_forward_hook([](Module&, const Values&, const Values& out) {
    Tensor twice = out[0].clone();
    for (double& v : twice.data<double>()) v *= 2;
    return std::vector<Tensor>{twice};
  });
  Tensor twice = plain.clone();
  for (double& v : twice.data<double>()) v *= 2;
  CHECK(largest_difference(model.forward({x})[0], twice) == 0);
  model.backward({dy});
  const Tensor grad = model.get_parameter("fc1.weight").grad().clone();
  pre.remove();
  post.remove();
  post.remove();

  // What was replaced is a constant to the gradient: as without the forward hook.
  model.zero_grad();
  model.forward({other});
  model.backward({dy});
  CHECK(largest_difference(model.get_parameter("fc1.weight").grad(), grad) == 0);

  model.zero_grad();
  RemovableHandle back = model.register_full_backward_pre_hook([&](Module&, const Values& grads) {
    Tensor half = grads[0].clone();
    for (double& v : half.data<double>()) v /= 2;
    return std::vector<Tensor>{half};
  });
  model.forward({other});
  model.backward({dy});
  Tensor doubled = model.get_parameter("fc1.weight").grad().clone();
  for (double& v : doubled.data<double>()) v *= 2;
  CHECK(largest_difference(doubled, grad) < 1e-15);
  back.remove();

  model.input_requires_grad_(true);
  model.register_full_backward_hook([](Module&, const Values& grad_inputs, const Values&) {
    Tensor zero = grad_inputs[0].clone();
    zero.fill(0);
    return std::vector<Tensor>{zero};
  });
  model.forward({x});
  model.backward({dy});
  const Tensor none = model.input_grad("x");
  for (double v : none.data<double>()) CHECK(v == 0);
}

TEST_CASE("hooks run in the order they were registered, prepended ones first") {
  Module model = testing::load(testing::mlp_model(), exact());
  std::string order;
  const auto add = [&](const char* name, HookOptions options) {
    return model.register_forward_hook(
        [&order, name](Module&, const Values&, const Values&) { order += name; }, options);
  };
  add("a", {});
  RemovableHandle b = add("b", {});
  add("c", {.prepend = true});
  model.forward({numbers({2, 4})});
  CHECK(order == "cab");
  order.clear();
  b.remove();
  model.forward({numbers({2, 4})});
  CHECK(order == "ca");
}

TEST_CASE("hooks with keyword arguments get values by name") {
  Module model = testing::load(testing::mlp_model(), exact());
  const Tensor x = numbers({2, 4}, 3);
  int calls = 0;
  model.register_forward_pre_hook([&](Module&, const Values& args, const TensorMap& kwargs) {
    ++calls;
    REQUIRE(args.size() == 1);
    CHECK(largest_difference(kwargs.at("x"), x) == 0);
  });
  model.register_forward_hook(
      [&](Module&, const Values&, const TensorMap& kwargs, const Values& outputs) {
        ++calls;
        CHECK(kwargs.contains("x"));
        CHECK(outputs.contains("y"));
      });
  model.forward({x});
  CHECK(calls == 2);
}

TEST_CASE("always_call runs a hook when the forward fails") {
  Module model = testing::load(testing::mlp_model(), exact());
  std::string order;
  model.register_forward_hook([&](Module&, const Values&, const Values&) {
    order += "fails ";
    throw Error(ErrorCode::kRuntime, "a hook's own error");
  });
  model.register_forward_hook([&](Module&, const Values&, const Values&) { order += "left out "; });
  model.register_forward_hook(
      [&](Module&, const Values& args, const Values& outputs) {
        order += "always ";
        CHECK(args.size() == 1);
        CHECK(outputs.empty());
      },
      {.always_call = true});
  const std::string text = failure([&] { model.forward({numbers({2, 4})}); }, ErrorCode::kRuntime);
  CHECK(contains(text, "a hook's own error"));
  CHECK(order == "fails always ");
}

TEST_CASE("what a hook returns must fit") {
  Module model = testing::load(testing::mlp_model(), exact());
  RemovableHandle h = model.register_forward_pre_hook(
      [](Module&, const Values&) { return std::vector<Tensor>{Tensor(DType::kFloat64, {1})}; });
  std::string text = failure([&] { model.forward({numbers({2, 4})}); }, ErrorCode::kInput);
  CHECK(contains(text, "float64[1]"));
  CHECK(contains(text, "float64[2,4]"));
  CHECK(contains(text, "'x'"));
  h.remove();
  h = model.register_forward_pre_hook(
      [](Module&, const Values&) { return std::vector<Tensor>(3); });
  text = failure([&] { model.forward({numbers({2, 4})}); }, ErrorCode::kInput);
  CHECK(contains(text, "3 tensors for 1"));
  h.remove();
  model.register_forward_pre_hook([&](Module& m, const Values&) { m.forward({numbers({2, 4})}); });
  text = failure([&] { model.forward({numbers({2, 4})}); }, ErrorCode::kUsage);
  CHECK(contains(text, "inside of a hook"));
}

TEST_CASE("the deprecated hook is the full one", "[register_backward_hook]") {
  Module model = testing::load(testing::mlp_model(), exact());
  int calls = 0;
  model.register_backward_hook([&](Module&, const Values&, const Values&) { ++calls; });
  model.forward({numbers({2, 4})});
  model.backward({numbers({2, 3})});
  CHECK(calls == 1);
}

TEST_CASE("a graph without hooks has the plan that it had before") {
  Module model = testing::load(testing::conv_model());
  TrainerOptions options;
  options.losses = {"cross_entropy"};
  Trainer trainer(model, options);
  const TensorMap batch = {{"x", numbers({2, 3, 16, 16}, 1, DType::kFloat32)},
                           {"target", testing::ids({3, 5})}};
  const std::string before = trainer.dump(GraphStage::kPlanned, GraphFormat::kText, batch);
  RemovableHandle h = model.register_forward_hook([](Module&, const Values&, const Values&) {});
  CHECK(contains(trainer.dump(GraphStage::kPlanned, GraphFormat::kText, batch), "Hook"));
  h.remove();
  CHECK(trainer.dump(GraphStage::kPlanned, GraphFormat::kText, batch) == before);
}

TEST_CASE("hooks are called in fused steps too, and do not change what is learnt") {
  const auto trained = [](bool hooks) {
    Module model = testing::load(testing::conv_model());
    int calls = 0;
    if (hooks) {
      for (Module& m : model.modules()) {
        m.register_forward_hook([&](Module&, const Values&, const Values&) { ++calls; });
        m.register_full_backward_hook([&](Module&, const Values&, const Values&) { ++calls; });
      }
    }
    TrainerOptions options;
    options.losses = {"cross_entropy"};
    Trainer trainer(model, options);
    for (int i = 0; i < 3; ++i) {
      trainer.step(
          {{"x", numbers({2, 3, 16, 16}, 1, DType::kFloat32)}, {"target", testing::ids({3, 5})}});
    }
    CHECK((calls > 0) == hooks);
    return model.parameters()[0].value().clone();
  };
  CHECK(largest_difference(trained(true).to(DType::kFloat64), trained(false).to(DType::kFloat64)) <
        1e-6);
}

}  // namespace
}  // namespace trainrt
