// The state of PyTorch modules in the exports of both its exporters: make.py wrote the files.
#include "trainrt/state.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "onnx/onnx_pb.h"
#include "runtime/session.h"
#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"
#include "trainrt/data.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using testing::contains;
using testing::failure;

const std::vector<std::string> kArchitectures = {
    "gpt",       "gpt2", "bert",   "llama",  "vit",  "encoder", "resnet",
    "mobilenet", "unet", "conv1d", "conv3d", "lstm", "gru",     "rnn"};

std::string path_of(const std::string& name) { return "tests/state/" + name; }

std::string model_path(const std::string& name, const std::string& exporter) {
  return path_of(name + "_" + exporter + ".onnx");
}

/// What PyTorch saved.
StateDict saved(const std::string& name) {
  return load_safetensors(path_of(name + ".safetensors"));
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

Tensor find(const StateDict& dict, const std::string& key) {
  const auto it =
      std::find_if(dict.begin(), dict.end(), [&](const auto& i) { return i.first == key; });
  REQUIRE(it != dict.end());
  return it->second;
}

void replace(StateDict& dict, const std::string& key, const Tensor& value) {
  const auto it =
      std::find_if(dict.begin(), dict.end(), [&](const auto& i) { return i.first == key; });
  REQUIRE(it != dict.end());
  it->second = value;
}

StateDict without(const StateDict& dict, const std::set<std::string>& keys) {
  StateDict rest;
  for (const auto& item : dict) {
    if (!keys.contains(item.first)) rest.push_back(item);
  }
  return rest;
}

/// Every tensor of one is in the other, to the bit; num_batches_tracked is left out by trainrt.
void check_same_state(const StateDict& got, const StateDict& want) {
  size_t expected = 0;
  for (const auto& [key, value] : want) {
    if (key.ends_with("num_batches_tracked")) continue;
    INFO(key);
    CHECK(same(find(got, key), value));
    ++expected;
  }
  CHECK(got.size() == expected);
}

/// Of the evaluated model, relative to the largest output.
double error(Module& module, const TensorMap& arrays, const std::string& want) {
  TensorMap inputs;
  for (const auto& port : module.inputs()) inputs[port.name] = arrays.at("in/" + port.name);
  module.eval();
  const Outputs outputs = module.forward(inputs);
  const Tensor y = outputs[0].to(DType::kFloat64), x = arrays.at(want).to(DType::kFloat64);
  REQUIRE(y.shape() == x.shape());
  double most = 0, largest = 0;
  for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
    const double d = std::abs(y.data<double>()[i] - x.data<double>()[i]);
    if (!(d <= most)) most = d;
    largest = std::max(largest, std::abs(x.data<double>()[i]));
  }
  return most / largest;
}

TEST_CASE("PyTorch's state goes into the exports of both exporters and back") {
  const std::string name = GENERATE(from_range(kArchitectures));
  const std::string exporter = GENERATE("script", "dynamo");
  const bool tie = GENERATE(false, true);
  INFO(name << " " << exporter << (tie ? ", tied" : ""));
  ModuleOptions options;
  options.tie_weights = tie;
  Module module(model_path(name, exporter), options);
  const TensorMap arrays = load_npz(path_of(name + ".npz"));
  const StateDict state = saved(name);
  // The file has other weights.
  CHECK(error(module, arrays, "out32/y") > 1e-2);

  const LoadResult result = module.load_state_dict(state);
  CHECK(result.missing.empty());
  CHECK(result.unexpected.empty());
  CHECK(error(module, arrays, "out32/y") <= 1e-5);
  check_same_state(original_state_dict(module), state);
  check_same_state(state_dict(module, KeyStyle::kOriginal), state);
  CHECK(state_dict(module, KeyStyle::kFile).size() == module.state_dict().size());

  // The framework's names in, the file's names out and in again.
  Module other(model_path(name, exporter), options);
  other.load_state_dict(module.state_dict());
  check_same_state(original_state_dict(other), state);
}

TEST_CASE("outputs with PyTorch's state are PyTorch's in float64") {
  const std::string name = GENERATE(from_range(kArchitectures));
  const std::string exporter = GENERATE("script", "dynamo");
  if (name == "llama") return;  // PyTorch's rotary positions are float32 whatever the type
  INFO(name << " " << exporter);
  ModuleOptions options;
  options.dtype = DType::kFloat64;
  Module module(model_path(name, exporter), options);
  module.load_state_dict(saved(name));
  CHECK(error(module, load_npz(path_of(name + ".npz")), "out/y") <= 1e-9);
}

TEST_CASE("a module has the framework's parameters and no others") {
  const std::string name = GENERATE(from_range(kArchitectures));
  const std::string exporter = GENERATE("script", "dynamo");
  INFO(name << " " << exporter);
  const Module module(model_path(name, exporter));
  const StateDict state = saved(name);
  int64_t have = 0;
  for (const auto& [key, value] : module.state_dict()) have += value.size();
  // A tied weight is one parameter or two.
  int64_t least = 0, most = 0;
  for (const auto& [key, value] : state) {
    if (key.ends_with("num_batches_tracked")) continue;
    most += value.size();
    const bool tied =
        (name == "gpt" && key == "head.weight") || (name == "gpt2" && key == "lm_head.weight");
    if (!tied) least += value.size();
  }
  CHECK((have == least || have == most));
}

TEST_CASE("a transposed weight's own name is the framework's") {
  const Module module(model_path("gpt", "dynamo"));
  CHECK(module.get_parameter("blocks.0.fc1.weight").shape() == Shape{12, 48});
  CHECK(find(original_state_dict(module), "blocks.0.fc1.weight").shape() == Shape{48, 12});
}

TEST_CASE("a tied weight is known under each of its names") {
  const std::string name = GENERATE("gpt", "gpt2");
  const std::string exporter = GENERATE("script", "dynamo");
  const bool tie = GENERATE(false, true);
  INFO(name << " " << exporter << (tie ? ", tied" : ""));
  const std::string table = name == "gpt" ? "wte.weight" : "transformer.wte.weight";
  const std::string head = name == "gpt" ? "head.weight" : "lm_head.weight";
  ModuleOptions options;
  options.tie_weights = tie;
  const StateDict state = saved(name);

  // Files with one of the names only are common: the safetensors format knows no shared tensors.
  for (const std::string& key : {table, head}) {
    Module module(model_path(name, exporter), options);
    CHECK(module.load_state_dict(without(state, {key})).missing.empty());
    check_same_state(original_state_dict(module), state);
  }

  StateDict different = state;
  Tensor changed = find(state, head).clone();
  changed.data<float>()[3] += 1;
  replace(different, head, changed);
  Module module(model_path(name, exporter), options);
  const StateDict before = original_state_dict(module);
  if (tie || module.warnings().empty()) {
    const std::string text = failure([&] { module.load_state_dict(different); }, ErrorCode::kInput);
    CHECK(contains(text, table));
    CHECK(contains(text, head));
    CHECK(contains(text, "one weight in the file"));
    check_same_state(original_state_dict(module), before);
  } else {  // two weights in this file
    module.load_state_dict(different);
    check_same_state(original_state_dict(module), different);
  }
}

TEST_CASE("a folded BatchNormalization is an error that says so") {
  const std::string exporter = GENERATE("script", "dynamo");
  INFO(exporter);
  Module module(model_path("resnet_folded", exporter));
  const StateDict before = module.state_dict();
  std::vector<Tensor> values;
  for (const auto& item : before) values.push_back(item.second.clone());

  std::string text = failure([&] { original_state_dict(module); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "BatchNormalization"));
  CHECK(contains(text, "optimize=False"));
  CHECK(contains(text, "do_constant_folding=False"));
  if (exporter == "dynamo") CHECK(contains(text, "'bn.running_mean'"));

  text = failure([&] { module.load_state_dict(saved("resnet")); }, ErrorCode::kInput);
  CHECK(contains(text, "BatchNormalization"));
  CHECK(contains(text, "'bn.weight' is not in the model"));
  // The convolution's weight is there under the framework's name, with other contents.
  if (exporter == "dynamo") {
    text = failure([&] { module.load_state_dict(saved("resnet"), false); }, ErrorCode::kInput);
    CHECK(contains(text, "'stem.weight' of the file is not the framework's"));
  }
  for (size_t i = 0; i < before.size(); ++i) CHECK(same(before[i].second, values[i]));
  // As the file has it, the state goes out and in.
  CHECK(module.load_state_dict(module.state_dict()).missing.empty());
}

TEST_CASE("shape errors name the key and both shapes, and nothing changes") {
  const std::string exporter = GENERATE("script", "dynamo");
  Module module(model_path("lstm", exporter));
  const StateDict before = original_state_dict(module);
  StateDict bad = saved("lstm");
  replace(bad, "rnn.weight_hh_l1_reverse", Tensor(DType::kFloat32, {20, 6}));
  replace(bad, "head.bias", Tensor(DType::kFloat32, {11, 1}));
  std::string text = failure([&] { module.load_state_dict(bad); }, ErrorCode::kInput);
  CHECK(contains(text, "'rnn.weight_hh_l1_reverse': expected shape [20,5], given [20,6]"));
  CHECK(contains(text, "'head.bias': expected shape [11], given [11,1]"));
  CHECK_FALSE(contains(text, "missing"));
  check_same_state(original_state_dict(module), before);

  text = failure([&] { module.load_state_dict(without(saved("lstm"), {"rnn.bias_hh_l0"})); },
                 ErrorCode::kInput);
  CHECK(contains(text, "'rnn.bias_hh_l0' is missing"));
  check_same_state(original_state_dict(module), before);
}

TEST_CASE("parts of packed weights load one by one") {
  const std::string exporter = GENERATE("script", "dynamo");
  Module module(model_path("gru", exporter));
  const StateDict state = saved("gru");
  StateDict expected = original_state_dict(module);
  for (const char* key : {"rnn.weight_ih_l1", "rnn.bias_hh_l0"}) {
    const LoadResult result = module.load_state_dict({{key, find(state, key)}}, false);
    CHECK(result.missing.size() == state.size() - 1);
    CHECK(std::find(result.missing.begin(), result.missing.end(), "rnn.bias_ih_l0") !=
          result.missing.end());
    CHECK(result.unexpected.empty());
    replace(expected, key, find(state, key));
    check_same_state(original_state_dict(module), expected);
  }
}

Tensor triangle(DType dtype, Shape shape, int64_t n, double above) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) values.push_back(j <= i ? 1 : above);
  }
  const Tensor t = Tensor::from<double>(values, std::move(shape));
  return dtype == DType::kFloat64 ? t : t.to(dtype);
}

TEST_CASE("what PyTorch keeps for its own use is accepted when its kind is known") {
  Module module(model_path("gpt2", "dynamo"));
  const StateDict state = saved("gpt2");
  const auto unexpected = [&](const std::string& key, const Tensor& value) {
    StateDict more = state;
    more.emplace_back(key, value);
    const bool refused = !module.load_state_dict(more, false).unexpected.empty();
    if (refused) CHECK_THROWS_AS(module.load_state_dict(more), Error);
    return refused;
  };
  const Tensor one = Tensor::scalar<int64_t>(1);
  CHECK_FALSE(unexpected("bn.num_batches_tracked", one));
  CHECK(unexpected("bn.num_batches_tracked", Tensor::scalar<float>(1)));
  CHECK(unexpected("bn.num_batches", one));
  CHECK_FALSE(unexpected("transformer.h.0.attn.masked_bias", Tensor::scalar<float>(-1e4F)));
  CHECK_FALSE(
      unexpected("transformer.h.0.attn.bias", triangle(DType::kFloat32, {1, 1, 8, 8}, 8, 0)));
  CHECK_FALSE(unexpected("transformer.h.0.attn.mask", triangle(DType::kFloat64, {8, 8}, 8, 0)));
  CHECK(unexpected("transformer.h.0.attn.bias", triangle(DType::kFloat32, {1, 1, 8, 8}, 8, 0.5)));
  CHECK(unexpected("transformer.h.0.attn.scale", triangle(DType::kFloat32, {8, 8}, 8, 0)));
  const std::vector<int64_t> positions = {0, 1, 2, 3}, others = {0, 1, 3, 2};
  CHECK_FALSE(unexpected("position_ids", Tensor::of_ints(positions).reshape({1, 4})));
  CHECK(unexpected("position_ids", Tensor::of_ints(others).reshape({1, 4})));
  CHECK(unexpected("transformer.h.2.ln_1.weight", Tensor(DType::kFloat32, {8})));
}

TEST_CASE("a constant of the model takes no other value") {
  Module module(model_path("llama", "script"));
  const auto& constants = module.session()->model().state_layout().constants;
  const auto it = std::find_if(constants.begin(), constants.end(),
                               [](const StateConstant& c) { return c.value.size() > 1; });
  REQUIRE(it != constants.end());
  const std::string name = it->name;
  const Tensor value = it->value;
  StateDict more = saved("llama");
  more.emplace_back(name, value);
  CHECK(module.load_state_dict(more).unexpected.empty());
  Tensor changed = value.clone();
  std::memset(changed.raw(), 1, changed.bytes());
  more.back().second = changed;
  const std::string text = failure([&] { module.load_state_dict(more); }, ErrorCode::kInput);
  CHECK(contains(text, "'" + name + "' is a constant of the model, with another value"));
}

TEST_CASE("other types are converted") {
  Module module(model_path("encoder", "dynamo"));
  StateDict state = saved("encoder");
  StateDict wide;
  for (const auto& [key, value] : state) wide.emplace_back(key, value.to(DType::kFloat64));
  module.load_state_dict(wide);
  check_same_state(original_state_dict(module), state);
}

TEST_CASE("the state is a copy, and follows training") {
  const std::string exporter = GENERATE("script", "dynamo");
  Module module(model_path("lstm", exporter));
  module.load_state_dict(saved("lstm"));
  const StateDict before = original_state_dict(module);
  TrainerOptions options;
  options.losses = {"mean"};
  options.optimizer = "sgd";
  options.lr = 0.1;
  Trainer trainer(module, options);
  const TensorMap arrays = load_npz(path_of("lstm.npz"));
  trainer.step({{"x0", arrays.at("in/x0")}});
  check_same_state(before, saved("lstm"));
  const StateDict after = original_state_dict(module);
  size_t changed = 0;
  for (size_t i = 0; i < after.size(); ++i)
    changed += same(after[i].second, before[i].second) ? 0 : 1;
  CHECK(changed > 10);
  Module other(model_path("lstm", exporter));
  other.load_state_dict(after);
  check_same_state(original_state_dict(other), after);
}

TEST_CASE("copies of one weight in the file load together, and trained apart they are an error") {
  // y = (x w) w, with the second w turned round by the exporter.
  onnx::ModelProto proto;
  proto.set_ir_version(8);
  proto.add_opset_import()->set_version(17);
  onnx::GraphProto* graph = proto.mutable_graph();
  const auto node = [&](const char* a, const char* b, const char* y) {
    onnx::NodeProto* n = graph->add_node();
    n->set_op_type("MatMul");
    n->add_input(a);
    n->add_input(b);
    n->add_output(y);
  };
  const auto weight = [&](const char* name, const std::vector<float>& values) {
    onnx::TensorProto* t = graph->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::FLOAT);
    t->add_dims(2);
    t->add_dims(2);
    for (float v : values) t->add_float_data(v);
  };
  graph->set_name("g");
  node("x", "w", "a");
  node("a", "val_3", "y");
  weight("w", {1, 2, 3, 4});
  weight("val_3", {1, 3, 2, 4});
  for (auto* port : {graph->add_input(), graph->add_output()}) {
    auto* type = port->mutable_type()->mutable_tensor_type();
    port->set_name(port == graph->mutable_input(0) ? "x" : "y");
    type->set_elem_type(onnx::TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_param("n");
    type->mutable_shape()->add_dim()->set_dim_value(2);
  }
  proto.set_producer_name("pytorch");
  const auto note = [](auto* to, const std::string& key, const std::string& value) {
    to->add_metadata_props()->set_key(key);
    to->mutable_metadata_props(to->metadata_props_size() - 1)->set_value(value);
  };
  note(graph, "pkg.torch.export.ExportedProgram.graph_signature", "p_w: PARAMETER target='w'\n");
  onnx::ValueInfoProto* folded = graph->add_value_info();
  folded->set_name("val_3");
  note(folded, "pkg.onnxscript.optimizer.folded_from", "['w']");
  const std::string bytes = proto.SerializeAsString();
  Module module = Module::from_bytes({bytes.data(), bytes.size()});

  const Tensor given = Tensor::from<float>({5, 6, 7, 8}, {2, 2});
  module.load_state_dict({{"w", given}});
  CHECK(same(module.get_parameter("w").value(), given));
  CHECK(same(module.get_parameter("val_3").value(), Tensor::from<float>({5, 7, 6, 8}, {2, 2})));
  check_same_state(original_state_dict(module), {{"w", given}});

  module.get_parameter("val_3").value().data<float>()[1] = 0;
  const std::string text = failure([&] { original_state_dict(module); }, ErrorCode::kUnsupported);
  CHECK(contains(text, "'w' lies in the file more than once"));
}

TEST_CASE("a checkpoint holds a tied weight's two copies by the file's names") {
  const TemporaryFolder folder;
  Module module(model_path("gpt", "dynamo"));
  module.load_state_dict(saved("gpt"));
  const std::string path = folder.file("gpt.ckpt");
  module.save(path);
  Module other(model_path("gpt", "dynamo"));
  other.load(path);
  check_same_state(original_state_dict(other), saved("gpt"));
}

TEST_CASE("the written file is PyTorch's file") {
  const TemporaryFolder folder;
  Module module(model_path("unet", "script"));
  module.load_state_dict(saved("unet"));
  const std::string path = folder.file("unet.safetensors");
  save_safetensors(path, original_state_dict(module));
  check_same_state(load_safetensors(path), saved("unet"));
}

TEST_CASE("every model of the folder is in the list") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/state")) {
    if (entry.path().extension() == ".safetensors") ++files;
  }
  CHECK(files == kArchitectures.size());
}

}  // namespace
}  // namespace trainrt
