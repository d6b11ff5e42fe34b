// Optimizers as objects: groups against PyTorch's formulas written out, mixing with Trainer, state,
// errors.
#include "trainrt/optimizer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "runtime/session.h"
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

TensorMap batch_of(int64_t n, uint64_t seed) {
  std::vector<int64_t> target;
  for (int64_t i = 0; i < n; ++i) target.push_back((i + static_cast<int64_t>(seed)) % 3);
  return {{"x", numbers({n, 4}, seed)}, {"target", testing::ids(target)}};
}

Module mlp(ModuleOptions options = exact()) {
  Module m = testing::load(testing::mlp_model(), options);
  m.attach_loss({"cross_entropy"});
  return m;
}

bool same_state(const Module& a, const Module& b) {
  const StateDict x = a.state_dict(), y = b.state_dict();
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::memcmp(x[i].second.raw(), y[i].second.raw(), y[i].second.bytes()) != 0) return false;
  }
  return true;
}

std::vector<Parameter> named(const Module& m, const std::vector<std::string>& names) {
  std::vector<Parameter> list;
  for (const std::string& name : names) list.push_back(m.get_parameter(name));
  return list;
}

ParamGroup group_of(std::vector<Parameter> params, std::optional<double> lr = {}) {
  ParamGroup group;
  group.params = std::move(params);
  group.lr = lr;
  return group;
}

void backward(Module& m, const TensorMap& batch) {
  m.forward(batch);
  m.backward();
}

/// One parameter updated by the formulas of torch.optim's documentation.
struct ByHand {
  std::string kind;
  double lr = 0, decay = 0, momentum = 0.9, dampening = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  std::vector<double> w, m, v;
  int t = 0;

  ByHand(std::string of, const Tensor& start) : kind(std::move(of)) {
    const auto data = start.data<double>();
    w.assign(data.begin(), data.end());
    m.assign(w.size(), 0);
    v.assign(w.size(), 0);
  }

  void step(const Tensor& grad) {
    ++t;
    for (size_t i = 0; i < w.size(); ++i) {
      double g = grad.data<double>()[i];
      if (kind == "adamw") {
        w[i] -= lr * decay * w[i];
      } else {
        g += decay * w[i];
      }
      if (kind == "adam" || kind == "adamw") {
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        const double top = m[i] / (1 - std::pow(beta1, t));
        w[i] -= lr * top / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + eps);
      } else if (kind == "momentum" || kind == "nesterov") {
        m[i] = t == 1 ? g : momentum * m[i] + (1 - dampening) * g;
        w[i] -= lr * (kind == "nesterov" ? g + momentum * m[i] : m[i]);
      } else {
        w[i] -= lr * g;
      }
    }
  }

  double off(const Parameter& p) const {
    double largest = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      largest = std::max(largest, std::abs(p.value().data<double>()[i] - w[i]));
    }
    return largest;
  }
};

TEST_CASE("each group follows its own settings") {
  const std::string kind = GENERATE("sgd", "momentum", "nesterov", "adam", "adamw");
  INFO(kind);
  Module m = mlp();
  ParamGroup slow = group_of(named(m, {"fc1.weight", "fc2.weight"}), 0.02);
  slow.weight_decay = 0.3;
  ParamGroup fast = group_of(named(m, {"fc1.bias", "fc2.bias"}));
  if (kind == "momentum" || kind == "nesterov") slow.momentum = 0.5;
  if (kind == "momentum") slow.dampening = 0.25;
  if (kind == "adam" || kind == "adamw") slow.beta1 = 0.7, slow.beta2 = 0.9, slow.eps = 1e-3;
  Optimizer optimizer(m, kind + ":lr=0.1,weight_decay=0", std::vector<ParamGroup>{slow, fast});

  std::map<std::string, ByHand> hand;
  for (auto& [name, p] : m.named_parameters()) {
    ByHand h(kind, p.value());
    const bool weight = name.ends_with("weight");
    h.lr = weight ? 0.02 : 0.1;
    h.decay = weight ? 0.3 : 0;
    if (weight) {
      h.momentum = slow.momentum.value_or(0.9);
      h.dampening = slow.dampening.value_or(0);
      h.beta1 = slow.beta1.value_or(0.9);
      h.beta2 = slow.beta2.value_or(0.999);
      h.eps = slow.eps.value_or(1e-8);
    }
    hand.emplace(name, std::move(h));
  }
  for (uint64_t i = 0; i < 5; ++i) {
    for (auto& [name, p] : m.named_parameters()) {
      p.set_grad(numbers(p.shape(), 10 * i + name.size()));
      hand.at(name).step(p.grad());
    }
    optimizer.step();
    for (const auto& [name, p] : m.named_parameters()) {
      INFO(name << ", step " << i);
      CHECK(hand.at(name).off(p) < 1e-14);
    }
  }
  CHECK(optimizer.steps_done() == 5);
  CHECK(optimizer.name() == kind);
}

TEST_CASE("rate and decay can be read, and set between steps") {
  Module m = mlp();
  Optimizer optimizer(m, "sgd:lr=0.5");
  REQUIRE(optimizer.param_groups().size() == 1);
  ParamGroup& group = optimizer.param_groups()[0];
  CHECK(group.lr == 0.5);
  CHECK(group.weight_decay == 0.0);
  CHECK_FALSE(group.momentum.has_value());
  CHECK(group.params.size() == 4);
  Parameter p = m.get_parameter("fc1.bias");
  ByHand hand("sgd", p.value());
  for (const double lr : {0.5, 0.25, 0.125}) {
    group.lr = hand.lr = lr;
    group.weight_decay = hand.decay = lr / 2;
    p.set_grad(numbers(p.shape(), 7));
    hand.step(p.grad());
    optimizer.step();
    CHECK(hand.off(p) < 1e-15);
  }
  CHECK(Optimizer(m, "adam").param_groups()[0].lr == 1e-3);
  CHECK(Optimizer(m, "adam").param_groups()[0].beta2 == 0.999);
  CHECK(Optimizer(m, "adamw").param_groups()[0].weight_decay == 1e-2);
}

TEST_CASE("a parameter without a gradient is skipped: weight, moments and count of updates") {
  const std::string kind = GENERATE("momentum", "adam");
  INFO(kind);
  Module m = mlp();
  Optimizer optimizer(m, kind + ":lr=0.1");
  Parameter always = m.get_parameter("fc1.bias"), late = m.get_parameter("fc2.bias");
  ByHand a(kind, always.value()), b(kind, late.value());
  a.lr = b.lr = 0.1;
  optimizer.step();  // no gradient at all
  CHECK(optimizer.steps_done() == 0);
  for (uint64_t i = 0; i < 6; ++i) {
    always.set_grad(numbers(always.shape(), i));
    a.step(always.grad());
    if (i % 3 == 2) {
      late.set_grad(numbers(late.shape(), i + 50));
      b.step(late.grad());
    }
    optimizer.step();
    optimizer.zero_grad();
    CHECK(a.off(always) < 1e-14);
    CHECK(b.off(late) < 1e-14);
  }
  CHECK(optimizer.steps_done() == 6);
}

TEST_CASE("trainer, optimizer and train_step take turns, and give what one alone gives") {
  const std::string kind = GENERATE("momentum", "nesterov", "adam", "adamw");
  INFO(kind);
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64);
  ModuleOptions module_options;
  module_options.dtype = dtype;
  Module alone = mlp(module_options), mixed = mlp(module_options);
  TrainerOptions options;
  options.optimizer = kind + ":lr=0.05,weight_decay=0.02";
  Trainer single(alone, options), trainer(mixed, options);
  Optimizer optimizer(mixed, options.optimizer);
  for (uint64_t i = 0; i < 9; ++i) {
    const TensorMap batch = batch_of(6, i);
    const double want = single.step(batch).loss;
    double got = 0;
    if (i % 3 == 0) {
      got = trainer.step(batch).loss;
    } else if (i % 3 == 1) {
      got = mixed.forward(batch)["loss"].item();
      mixed.backward();
      optimizer.step();
      optimizer.zero_grad();
    } else {
      got = train_step(mixed, optimizer, batch).loss;
    }
    CHECK(got == want);
    CHECK(same_state(mixed, alone));
  }
  CHECK(trainer.steps_done() == 3);
  CHECK(optimizer.steps_done() == 6);
}

TEST_CASE("a second trainer continues the moments of the first") {
  Module a = mlp(), b = mlp();
  TrainerOptions options;
  options.optimizer = "adam:lr=0.05";
  Trainer one(a, options), first(b, options), second(b, options);
  for (uint64_t i = 0; i < 6; ++i) {
    one.step(batch_of(6, i));
    (i < 3 ? first : second).step(batch_of(6, i));
  }
  CHECK(same_state(a, b));
}

TEST_CASE("Trainer updates parameters by their own counts, and its checkpoints keep them") {
  const std::string kind = GENERATE("momentum", "adamw");
  INFO(kind);
  const TemporaryFolder folder;
  Module m = mlp(), loop = mlp(), resumed = mlp();
  TrainerOptions options;
  options.optimizer = kind + ":lr=0.05";
  // The head alone for three updates, then all parameters.
  for (Module* each : {&m, &loop}) {
    Optimizer head(*each, options.optimizer, named(*each, {"fc2.weight", "fc2.bias"}));
    for (uint64_t i = 0; i < 3; ++i) {
      backward(*each, batch_of(6, i));
      head.step();
      each->zero_grad();
    }
  }
  Trainer trainer(m, options);
  Optimizer all(loop, options.optimizer);
  for (uint64_t i = 3; i < 6; ++i) {
    trainer.step(batch_of(6, i));
    backward(loop, batch_of(6, i));
    all.step();
    all.zero_grad();
    CHECK(same_state(m, loop));
  }
  trainer.save_checkpoint(folder / "c");
  Trainer other(resumed, options);
  other.load_checkpoint(folder / "c");
  for (uint64_t i = 6; i < 9; ++i) {
    CHECK(other.step(batch_of(6, i)).loss == trainer.step(batch_of(6, i)).loss);
    CHECK(same_state(m, resumed));
  }
}

TEST_CASE("train_step with groups gives the bits of a loop with groups") {
  Module fused = mlp({}), loop = mlp({});
  auto optimizer_of = [](const Module& m) {
    ParamGroup first = group_of(named(m, {"fc1.weight"}), 0.01);
    first.weight_decay = 0.5;
    first.beta1 = 0.5;
    return Optimizer(m, "adamw:lr=0.05", {first, group_of(named(m, {"fc2.weight", "fc2.bias"}))});
  };
  Optimizer a = optimizer_of(fused), b = optimizer_of(loop);
  const Tensor untouched = fused.get_parameter("fc1.bias").value().clone();
  for (uint64_t i = 0; i < 6; ++i) {
    const StepResult step = train_step(fused, a, batch_of(6, i), {0.1, {}});
    CHECK(step.lr == 0.01);
    CHECK(step.loss == loop.forward(batch_of(6, i))["loss"].item());
    loop.backward();
    clip_grad_norm_(named(loop, {"fc1.weight", "fc2.weight", "fc2.bias"}), 0.1);
    b.step();
    b.zero_grad();
    a.param_groups()[1].lr = *a.param_groups()[1].lr * 0.9;
    b.param_groups()[1].lr = *b.param_groups()[1].lr * 0.9;
    CHECK(same_state(fused, loop));
  }
  CHECK(largest_difference(fused.get_parameter("fc1.bias").value(), untouched) == 0);
  CHECK(loop.get_parameter("fc1.bias").grad().defined());  // of no group: left as it was
  CHECK_FALSE(fused.get_parameter("fc1.weight").grad().defined());
}

TEST_CASE("train_step says what it needs") {
  Module m = mlp(), other = mlp();
  Optimizer optimizer(m, "sgd"), foreign(other, "sgd");
  const TensorMap batch = batch_of(4, 1);
  auto refuse = [&](Optimizer& with, const TrainStepOptions& options = {}) {
    return failure([&] { train_step(m, with, batch, options); }, ErrorCode::kUsage);
  };
  CHECK(contains(refuse(foreign), "same module"));
  CHECK(contains(refuse(optimizer, {-1.0, {}}), "clip_norm"));
  CHECK(contains(refuse(optimizer, {{}, 0.0}), "clip_value"));
  m.eval();
  CHECK(contains(refuse(optimizer), "train mode"));
  m.train();
  m.attach_loss({});
  CHECK(contains(refuse(optimizer), "attach_loss()"));
  m.attach_loss({"cross_entropy"});
  m.requires_grad_(false);
  CHECK(contains(refuse(optimizer), "frozen"));
  m.requires_grad_(true);
  CHECK(contains(failure(
                     [&] {
                       train_step(m, optimizer, {{"x", batch.at("x")}});
                     },
                     ErrorCode::kInput),
                 "target"));
  CHECK(same_state(m, other));
  CHECK(train_step(m, optimizer, batch).step == 1);
}

TEST_CASE("frozen parameters stay, and are not trained by train_step") {
  Module m = mlp();
  Optimizer optimizer(m, "adam:lr=0.1");
  m.get_parameter("fc1.weight").requires_grad_(false);
  const Tensor before = m.get_parameter("fc1.weight").value().clone();
  train_step(m, optimizer, batch_of(4, 1));
  backward(m, batch_of(4, 1));
  optimizer.step();
  CHECK(largest_difference(m.get_parameter("fc1.weight").value(), before) == 0);
}

TEST_CASE("a loaded state continues to the bit") {
  const std::string kind = GENERATE("sgd", "momentum", "adamw");
  INFO(kind);
  Module a = mlp(), b = mlp();
  auto groups = [](const Module& m) {
    return std::vector<ParamGroup>{group_of(named(m, {"fc1.weight", "fc1.bias"}), 0.01),
                                   group_of(named(m, {"fc2.weight", "fc2.bias"}))};
  };
  Optimizer first(a, kind + ":lr=0.05", groups(a));
  for (uint64_t i = 0; i < 4; ++i) {
    backward(a, batch_of(6, i));
    if (i < 2) a.get_parameter("fc1.bias").set_grad(Tensor());  // counts that differ
    first.step();
    first.zero_grad();
  }
  first.param_groups()[1].weight_decay = 0.25;
  StateDict state = first.state_dict();
  for (auto& [name, tensor] : state) tensor = tensor.clone();

  b.load_state_dict(a.state_dict());
  Optimizer second(b, kind, groups(b));
  train_step(b, second, batch_of(6, 77));  // moments to be replaced
  b.load_state_dict(a.state_dict());
  second.load_state_dict(state);
  CHECK(second.steps_done() == 4);
  CHECK(second.param_groups()[0].lr == 0.01);
  CHECK(second.param_groups()[1].lr == 0.05);
  CHECK(second.param_groups()[1].weight_decay == 0.25);
  for (uint64_t i = 4; i < 8; ++i) {
    for (auto& [module, optimizer] : {std::pair(&a, &first), std::pair(&b, &second)}) {
      backward(*module, batch_of(6, i));
      optimizer->step();
      optimizer->zero_grad();
    }
    CHECK(same_state(a, b));
  }
}

TEST_CASE("a state that does not fit is refused with every fault, and nothing has changed") {
  Module m = mlp();
  Optimizer optimizer(m, "adam:lr=0.05");
  for (uint64_t i = 0; i < 2; ++i) train_step(m, optimizer, batch_of(6, i));
  StateDict before = optimizer.state_dict();
  for (auto& [name, tensor] : before) tensor = tensor.clone();

  StateDict bad = before;
  std::erase_if(bad, [](const auto& entry) { return entry.first == "adam/exp_avg/fc1.bias"; });
  for (auto& [name, tensor] : bad) {
    tensor = tensor.clone();
    if (name == "adam/exp_avg_sq/fc1.bias") tensor = numbers({7});
    if (name == "adam/group/0/beta1") tensor = Tensor::scalar(1.5);
    if (name == "adam/group_of/fc2.bias") tensor = Tensor::scalar<int64_t>(1);
    if (name == "adam/updates/fc2.weight") tensor = Tensor::scalar<int64_t>(-1);
    if (name == "adam/exp_avg/fc2.weight") tensor.fill(9);
  }
  bad.emplace_back("adam/group/1/lr", Tensor::scalar(0.1));
  bad.emplace_back("adam/steps", Tensor::scalar<int64_t>(1));
  const std::string text = failure([&] { optimizer.load_state_dict(bad); }, ErrorCode::kInput);
  CHECK(contains(text, "'adam/exp_avg/fc1.bias' is missing"));
  CHECK(contains(text, "'adam/exp_avg_sq/fc1.bias': expected float64[8], given float64[7]"));
  CHECK(contains(text, "'adam/group/0/beta1' must be a number of 0 or more and below 1"));
  CHECK(contains(text, "parameter 'fc2.bias' was in group 1, is in group 0"));
  CHECK(contains(text, "'adam/updates/fc2.weight' is negative"));
  CHECK(contains(text, "'adam/group/1/lr' is unknown"));
  CHECK(contains(text, "'adam/steps' is given twice"));

  const StateDict after = optimizer.state_dict();
  REQUIRE(after.size() == before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    INFO(after[i].first);
    CHECK(after[i].first == before[i].first);
    CHECK(largest_difference(after[i].second, before[i].second) == 0);
  }
  Optimizer sgd(m, "sgd");
  CHECK(contains(failure([&] { sgd.load_state_dict(before); }, ErrorCode::kInput),
                 "not of optimizer 'sgd'"));
  CHECK(contains(failure([&] { sgd.load_state_dict({}); }, ErrorCode::kInput),
                 "'sgd/steps' is missing"));
}

TEST_CASE("reset_state starts afresh") {
  Module a = mlp(), b = mlp();
  Optimizer first(a, "adam:lr=0.05"), second(b, "adam:lr=0.05");
  for (uint64_t i = 0; i < 3; ++i) train_step(a, first, batch_of(6, i));
  first.reset_state();
  b.load_state_dict(a.state_dict());
  for (uint64_t i = 3; i < 5; ++i) {
    train_step(a, first, batch_of(6, i));
    train_step(b, second, batch_of(6, i));
  }
  CHECK(same_state(a, b));
}

TEST_CASE("a group can be added later") {
  Module m = mlp();
  Optimizer optimizer(m, "adam:lr=0.1", named(m, {"fc2.weight"}));
  Parameter p = m.get_parameter("fc1.bias");
  const Tensor before = p.value().clone();
  p.set_grad(numbers(p.shape()));
  optimizer.step();
  CHECK(largest_difference(p.value(), before) == 0);
  optimizer.add_param_group(group_of({p}, 0.2));
  REQUIRE(optimizer.param_groups().size() == 2);
  CHECK(optimizer.param_groups()[1].lr == 0.2);
  CHECK(optimizer.param_groups()[1].beta1 == 0.9);
  ByHand hand("adam", p.value());
  hand.lr = 0.2;
  hand.step(p.grad());
  optimizer.step();
  CHECK(hand.off(p) < 1e-14);
  CHECK(contains(failure([&] { optimizer.add_param_group(group_of({p})); }, ErrorCode::kUsage),
                 "'fc1.bias' is in param group 1 and in param group 2"));
  CHECK(optimizer.param_groups().size() == 2);
}

TEST_CASE("zero_grad drops or clears the gradients of its own parameters") {
  Module m = mlp();
  Optimizer optimizer(m, "sgd", named(m, {"fc1.weight"}));
  backward(m, batch_of(4, 1));
  optimizer.zero_grad(false);
  CHECK(largest_difference(m.get_parameter("fc1.weight").grad(), Tensor(DType::kFloat64, {4, 8})) ==
        0);
  optimizer.zero_grad();
  CHECK_FALSE(m.get_parameter("fc1.weight").grad().defined());
  CHECK(m.get_parameter("fc2.weight").grad().defined());
}

TEST_CASE("lists and settings that make no sense are refused by name") {
  Module m = mlp(), other = mlp();
  const Parameter w = m.get_parameter("fc1.weight"), b = m.get_parameter("fc1.bias");
  auto refuse = [&](std::vector<ParamGroup> groups, const std::string& text = "sgd") {
    return failure([&] { Optimizer(m, text, std::move(groups)); }, ErrorCode::kUsage);
  };
  CHECK(contains(refuse({}), "at least one param group"));
  CHECK(contains(refuse({group_of({w}), group_of({})}), "param group 1 has no parameters"));
  CHECK(contains(refuse({group_of({w}), group_of({b, w})}),
                 "'fc1.weight' is in param group 0 and in param group 1"));
  CHECK(contains(refuse({group_of({w, b, w})}), "'fc1.weight' is given twice"));
  CHECK(contains(refuse({group_of({other.get_parameter("fc1.weight")})}),
                 "'fc1.weight' belongs to another module"));
  CHECK(contains(refuse({group_of({Parameter()})}), "an empty Parameter"));
  ParamGroup group = group_of({w});
  group.beta1 = 0.5;
  CHECK(contains(refuse({group}), "optimizer 'sgd' has no beta1"));
  group.beta1 = 1;
  CHECK(contains(refuse({group}, "adam"), "beta1 must be a number of 0 or more and below 1"));
  CHECK(contains(refuse({group_of({w}, -1)}), "lr must be a number of 0 or more"));
  CHECK(contains(refuse({group_of({w}, std::nan(""))}), "lr"));
  CHECK(contains(refuse({group_of({w})}, "adagrad"), "no optimizer 'adagrad'"));
  const Module plain = testing::load(testing::plain_model());
  CHECK(contains(failure([&] { Optimizer(plain, "sgd"); }, ErrorCode::kUsage), "no parameters"));

  Optimizer optimizer(m, "sgd");
  const Tensor before = w.value().clone();
  backward(m, batch_of(4, 1));
  optimizer.param_groups()[0].lr = -1;
  CHECK(contains(failure([&] { optimizer.step(); }, ErrorCode::kUsage), "lr must be"));
  optimizer.param_groups()[0].lr.reset();  // back to the optimizer's own
  optimizer.param_groups()[0].params.push_back(w);
  CHECK(contains(failure([&] { optimizer.step(); }, ErrorCode::kUsage), "given twice"));
  CHECK(largest_difference(w.value(), before) == 0);
  optimizer.param_groups()[0].params.pop_back();
  optimizer.step();
  CHECK(largest_difference(w.value(), before) > 0);
}

TEST_CASE("parameters on which the loss does not depend are no obstacle") {
  Module m = testing::load(testing::two_output_model(), exact());
  m.attach_loss({"sum:a"});
  Optimizer optimizer(m, "adam:lr=0.1");
  const Tensor before = m.get_parameter("w").value().clone();
  train_step(m, optimizer, {{"x", numbers({2, 2})}});
  CHECK(largest_difference(m.get_parameter("w").value(), before) > 0.09);
}

TEST_CASE("plans of updates do not push out those of the model") {
  ModuleOptions options = exact();
  options.plan_cache = 1;
  Module m = mlp(options);
  Optimizer optimizer(m, "adam");
  StepSpec spec;
  spec.training = false;
  Batch batch = m.session()->make_batch({{"x", numbers({4, 4})}});
  const auto forward = m.session()->prepare(spec, batch);
  for (Parameter& p : m.parameters()) p.set_grad(numbers(p.shape()));
  for (int i = 0; i < 12; ++i) {
    optimizer.param_groups()[0].weight_decay = 0.01 * i;  // a new plan for each
    clip_grad_norm_(m.parameters(), 0.1);
    optimizer.step();
  }
  CHECK(m.session()->prepare(spec, batch) == forward);
}

TEST_CASE("an update between forward and backward is noticed") {
  Module m = mlp();
  Optimizer optimizer(m, "sgd");
  backward(m, batch_of(4, 1));
  m.forward(batch_of(4, 2));
  optimizer.step();
  CHECK_FALSE(failure([&] { m.backward(); }, ErrorCode::kUsage).empty());
}

}  // namespace
}  // namespace trainrt
