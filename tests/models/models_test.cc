// Whole models against PyTorch's float64 results, which make.py wrote: every model and kind of
// check is a test case.
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/models/where.h"
#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

constexpr double kSgdRate = 0.05, kAdamwRate = 1e-3;

struct Model {
  std::string name;
  std::vector<std::string> losses;
  BatchNormPolicy batch_norm = BatchNormPolicy::kTrain;
  /// The relative error (2-norm over all gradients) of PyTorch's CPU autocast to bfloat16, where it
  /// is above 0.007: small batches in BatchNormalization and many ReLUs.
  double autocast = 0.007;
};

const std::vector<Model>& models() {
  static const std::vector<Model> list = {
      {"mlp", {"cross_entropy"}},
      {"lenet", {"cross_entropy"}},
      {"cnn_op9", {"nll"}},
      {"resnet_op13", {"cross_entropy"}, BatchNormPolicy::kGraph, 0.14},
      {"resnet_op17", {"cross_entropy"}, BatchNormPolicy::kGraph, 0.10},
      // Exported for inference, trained all the same.
      {"mobilenet_eval", {"cross_entropy"}, BatchNormPolicy::kTrain, 0.08},
      {"unet", {"cross_entropy"}},
      {"conv1d", {"l1"}},
      {"conv3d", {"bce_with_logits"}, BatchNormPolicy::kTrain, 0.13},
      {"gpt_script", {"cross_entropy"}},
      {"gpt_dynamo", {"cross_entropy"}},
      {"vit_dynamo", {"cross_entropy"}},
      {"bert_script", {"cross_entropy"}},
      {"lstm", {"cross_entropy"}},
      {"gru", {"cross_entropy"}},
      {"two_outputs", {"cross_entropy:classes*0.75", "mse:value*0.25"}},
      {"einsum", {"huber"}},
  };
  return list;
}

std::string path_of(const Model& model, const std::string& ending) {
  return "tests/models/" + model.name + ending;
}

/// The arrays whose names start with `prefix`, without it.
TensorMap part(const TensorMap& arrays, const std::string& prefix) {
  TensorMap found;
  for (const auto& [name, array] : arrays) {
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = array;
  }
  return found;
}

TensorMap batch_of(const TensorMap& arrays) {
  TensorMap batch = part(arrays, "in/");
  for (const auto& [name, array] : arrays) {
    if (name.starts_with("target")) batch[name] = array;
  }
  return batch;
}

/// How a model is computed, and how near to PyTorch's float64 results that must come.
struct Mode {
  DType dtype = DType::kFloat32;
  Precision precision = Precision::kFloat32;
  double loss = 1e-5, output = 1e-5, gradient = 1e-4;  // relative to the largest number
};

constexpr Mode kFloat64{DType::kFloat64, Precision::kFloat32, 1e-9, 1e-9, 1e-9};
constexpr Mode kFloat32{};
/// Gradients as near as three times PyTorch's autocast.
constexpr Mode kBFloat16{DType::kFloat32, Precision::kBFloat16, 2e-2, 5e-2, 0};

Module load(const Model& model, const Mode& mode) {
  ModuleOptions options = testing::starting_options();
  options.dtype = mode.dtype;
  options.precision = mode.precision;
  options.batch_norm = model.batch_norm;
  return Module(path_of(model, ".onnx"), options);
}

Trainer trainer_of(const Module& module, const Model& model, const std::string& optimizer,
                   double lr) {
  TrainerOptions options;
  options.losses = model.losses;
  options.optimizer = optimizer;
  options.lr = lr;
  return Trainer(module, options);
}

double largest(const Tensor& tensor) {
  const Tensor values = tensor.to(DType::kFloat64);
  double most = 0;
  for (double v : values.data<double>()) most = std::max(most, std::abs(v));
  return most;
}

double difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::kFloat64), y = b.to(DType::kFloat64);
  double most = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double d = std::abs(x.data<double>()[at] - y.data<double>()[at]);
    if (!(d <= most)) most = d;  // NaN stays
  }
  return most;
}

/// 2-norm of got - want over that of want.
double distance(const TensorMap& got, const TensorMap& want) {
  double error = 0, norm = 0;
  for (const auto& [name, expected] : want) {
    const Tensor x = got.at(name).to(DType::kFloat64), y = expected.to(DType::kFloat64);
    for (size_t i = 0; i < static_cast<size_t>(y.size()); ++i) {
      const double d = x.data<double>()[i] - y.data<double>()[i];
      error += d * d;
      norm += y.data<double>()[i] * y.data<double>()[i];
    }
  }
  return std::sqrt(error / norm);
}

/// The same names, shapes and values: |got - want| <= tolerance * max(max |want|, floor).
void compare(const TensorMap& got, const TensorMap& want, double tolerance, double floor) {
  REQUIRE_FALSE(want.empty());
  for (const auto& [name, tensor] : got) {
    INFO(name);
    CHECK(want.contains(name));
  }
  for (const auto& [name, expected] : want) {
    INFO(name);
    const auto it = got.find(name);
    REQUIRE(it != got.end());
    REQUIRE(it->second.shape() == expected.shape());
    CHECK(difference(it->second, expected) <= tolerance * std::max(largest(expected), floor));
  }
}

TensorMap map_of(const Outputs& outputs) { return {outputs.begin(), outputs.end()}; }

/// Losses of five steps, then all state, in float32.
std::pair<std::vector<double>, StateDict> train(const Model& model, size_t budget,
                                                PlanStats* plan) {
  ModuleOptions options = testing::starting_options();
  options.batch_norm = model.batch_norm;
  options.memory_budget = budget;
  const Module module(path_of(model, ".onnx"), options);
  Trainer trainer = trainer_of(module, model, "adamw", kAdamwRate);
  const TensorMap batch = batch_of(load_npz(path_of(model, ".npz")));
  *plan = trainer.plan(batch);
  std::vector<double> losses;
  for (int i = 0; i < 5; ++i) losses.push_back(trainer.step(batch).loss);
  return {losses, module.state_dict()};
}

/// Whatever a step makes again within a memory budget: the same bits.
void check_budget(const Model& model) {
  PlanStats unlimited, limited;
  const auto want = train(model, 0, &unlimited);
  for (const size_t percent : {90, 80, 70}) {
    INFO(percent);
    const size_t budget = unlimited.arena_bytes * percent / 100;
    std::pair<std::vector<double>, StateDict> got;
    try {
      got = train(model, budget, &limited);
    } catch (const Error& e) {
      REQUIRE(e.code() == ErrorCode::kMemory);
      // Of models this small, little more than one layer's values is alive at a time.
      CHECK((model.name != "gpt_script" || percent < 80));
      return;
    }
    CHECK(limited.arena_bytes <= budget);
    CHECK(got.first == want.first);
    for (size_t i = 0; i < want.second.size(); ++i) {
      INFO(want.second[i].first);
      const Tensor &a = got.second[i].second, &b = want.second[i].second;
      CHECK(std::memcmp(a.raw(), b.raw(), b.bytes()) == 0);
    }
  }
}

void check_gradients(const Model& model, const Mode& mode) {
  const TensorMap arrays = load_npz(path_of(model, ".npz"));
  const Module module = load(model, mode);
  Trainer trainer = trainer_of(module, model, "sgd", kSgdRate);
  GradOptions options;
  options.input_grads = false;
  const GradResult result = trainer.grad(batch_of(arrays), options);

  const double loss = arrays.at("loss").item();
  CHECK(std::abs(result.loss.value() - loss) <= mode.loss * std::abs(loss));
  compare(map_of(result.outputs), part(arrays, "out/"), mode.output, 0);
  const TensorMap want = part(arrays, "grad/");
  double most = 0;
  for (const auto& [name, gradient] : want) most = std::max(most, largest(gradient));
  if (mode.precision == Precision::kFloat32) {
    const bool single = mode.dtype == DType::kFloat32;
    const double floor = 1e-3 * most * (single ? testing::coarser_sums() : 1);
    compare(result.grads, want, mode.gradient, floor);
  } else {
    CHECK(distance(result.grads, want) <= 3 * model.autocast);
  }
}

void check_losses(const Model& model, const Mode& mode, const std::string& optimizer, double lr) {
  const TensorMap arrays = load_npz(path_of(model, ".npz"));
  const TensorMap batch = batch_of(arrays);
  const Tensor losses = arrays.at("losses_" + optimizer);
  const Module module = load(model, mode);
  Trainer trainer = trainer_of(module, model, optimizer, lr);
  REQUIRE(losses.size() == 10);
  for (size_t step = 0; step < 10; ++step) {
    INFO("step " << step);
    const double want = losses.data<double>()[step];
    CHECK(std::abs(trainer.step(batch).loss - want) <= mode.loss * std::abs(want));
  }
  const TensorMap statistics = part(arrays, "buffer/");
  if (optimizer == "sgd" && !statistics.empty()) {
    TensorMap got;
    for (const auto& [name, tensor] : module.named_buffers()) got[name] = tensor;
    const bool bf16 = mode.precision == Precision::kBFloat16 && testing::keeps_as_autocast();
    compare(got, statistics, bf16 ? std::max(mode.output, model.autocast) : mode.output, 0);
  }
}

onnx::ModelProto parse(const std::string& path) {
  onnx::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  REQUIRE(model.ParseFromIstream(&file));
  return model;
}

template <typename Fields>
std::vector<std::string> serialized(const Fields& fields) {
  std::vector<std::string> texts;
  for (const auto& field : fields) texts.push_back(field.SerializeAsString());
  return texts;
}

/// The nodes are the same, but BatchNormalization is in its inference form.
void compare_nodes(const onnx::GraphProto& got, const onnx::GraphProto& want) {
  REQUIRE(got.node_size() == want.node_size());
  for (int i = 0; i < want.node_size(); ++i) {
    const onnx::NodeProto &node = got.node(i), &source = want.node(i);
    INFO(source.name());
    if (source.op_type() != "BatchNormalization") {
      CHECK((node.SerializeAsString() == source.SerializeAsString()));
      continue;
    }
    CHECK(node.op_type() == source.op_type());
    CHECK(node.name() == source.name());
    CHECK(std::ranges::equal(node.input(), source.input()));
    REQUIRE(node.output_size() == 1);
    CHECK(node.output(0) == source.output(0));
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      CHECK((attribute.name() != "training_mode" || attribute.i() == 0));
    }
  }
}

void check_export(const Model& model) {
  const std::string source = path_of(model, ".onnx");
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path =
      (folder != nullptr ? std::filesystem::path(folder) : std::filesystem::temp_directory_path()) /
      ("trained_" + model.name + ".onnx");
  const TensorMap arrays = load_npz(path_of(model, ".npz"));
  const Module module(source, testing::starting_options());
  Trainer trainer = trainer_of(module, model, "adamw", kAdamwRate);
  for (int i = 0; i < 3; ++i) trainer.step(batch_of(arrays));
  module.export_onnx(path);

  const onnx::ModelProto before = parse(source), after = parse(path);
  // An older libonnx does not know every file that trainrt reads.
  if (after.ir_version() <= onnx::IR_VERSION) CHECK_NOTHROW(onnx::checker::check_model(after));
  CHECK(after.ir_version() == before.ir_version());
  CHECK((serialized(after.opset_import()) == serialized(before.opset_import())));
  CHECK((serialized(after.graph().input()) == serialized(before.graph().input())));
  CHECK((serialized(after.graph().output()) == serialized(before.graph().output())));
  CHECK((serialized(after.graph().initializer()) != serialized(before.graph().initializer())));
  compare_nodes(after.graph(), before.graph());

  const Module trained(path, testing::starting_options());
  Trainer again = trainer_of(trained, model, "adamw", kAdamwRate);
  const Outputs want = trainer.predict(part(arrays, "in/"));
  const Outputs got = again.predict(part(arrays, "in/"));
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    REQUIRE(got[i].shape() == want[i].shape());
    CHECK(std::memcmp(got[i].raw(), want[i].raw(), want[i].bytes()) == 0);
  }
  std::filesystem::remove(path);
}

class ModelCase final : public Catch::ITestInvoker {
 public:
  explicit ModelCase(std::function<void()> body) : body_(std::move(body)) {}
  void invoke() const override { body_(); }

 private:
  std::function<void()> body_;
};

void add(const Model& model, const std::string& kind, std::function<void()> body) {
  const Catch::AutoReg registration(Catch::Detail::make_unique<ModelCase>(std::move(body)),
                                    CATCH_INTERNAL_LINEINFO, Catch::StringRef(),
                                    Catch::NameAndTags{model.name + ": " + kind, "[models]"});
}

const bool kRegistered = [] {
  for (const Model& model : models()) {
    for (const auto& [type, mode] : std::map<std::string, Mode>{
             {"float64", kFloat64}, {"float32", kFloat32}, {"bf16", kBFloat16}}) {
      if (type == "bf16" && !testing::runs_bf16()) continue;
      add(model, type + " gradients", [=] { check_gradients(model, mode); });
      add(model, type + " losses of sgd", [=] { check_losses(model, mode, "sgd", kSgdRate); });
      add(model, type + " losses of adamw",
          [=] { check_losses(model, mode, "adamw", kAdamwRate); });
    }
    add(model, "a memory budget", [=] { check_budget(model); });
    add(model, "export after three steps", [=] { check_export(model); });
  }
  return true;
}();

TEST_CASE("every model of the folder is in the list") {
  REQUIRE(kRegistered);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/models")) {
    if (entry.path().extension() == ".onnx") ++files;
  }
  CHECK(files == models().size());
}

}  // namespace
}  // namespace trainrt
