#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include "runtime/data/npy.h"
#include "tests/runtime/cli/program.h"
#include "tests/runtime/cli/tiny_models.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

class Workshop {
 public:
  Workshop() : model(folder.write("m.onnx", mlp().SerializeAsString())) {}
  std::string npz(const std::string& name,
                  std::vector<std::pair<std::string, Tensor>> arrays) const {
    write_npz(folder.file(name), arrays);
    return folder.file(name);
  }
  TemporaryFolder folder;
  std::string model;
};

const Tensor kX(DType::kFloat32, {5, 4});

TEST_CASE("usage errors exit with 2", "[cli]") {
  const Workshop w;
  Arguments arguments = GENERATE(values<Arguments>({
      {},
      {"fly"},
      {"run"},
      {"grad", "MODEL"},
      {"eval", "MODEL"},
      {"graph", "MODEL", "--stage", "odd"},
      {"run", "MODEL", "--no-such-option"},
      {"run", "MODEL", "--steps", "0"},
      {"run", "MODEL", "--steps", "many"},
      {"run", "MODEL", "--optimizer", "magic"},
      {"run", "MODEL", "--loss", "magic"},
      {"run", "MODEL", "--schedule", "magic"},
      {"run", "MODEL", "--lr", "-1"},
      {"run", "MODEL", "--shape", "z=1"},
      {"run", "MODEL", "--shape", "x"},
      {"run", "MODEL", "--set", "z=1"},
      {"run", "MODEL", "--batch", "none"},
      {"run", "MODEL", "--bn", "odd"},
      {"run", "MODEL", "--epochs", "3"},
      {"run", "MODEL", "--metrics", "accuracy"},
      {"run", "MODEL", "--int-range", "5..1"},
      {"run", "MODEL", "--data", "table.txt"},
      {"run", "MODEL", "--precision", "f16"},
      {"run", "MODEL", "--precision", "bf16", "--backend", "reference"},
      {"run", "MODEL", "--precision", "bf16", "--dtype", "float64"},
  }));
  std::replace(arguments.begin(), arguments.end(), std::string("MODEL"), w.model);
  const ProgramResult r = run_trainrt(arguments);
  INFO(r.err);
  CHECK(r.code == 2);
  CHECK_THAT(r.err, ContainsSubstring("trainrt: error: "));
  CHECK(r.out.empty());
}

TEST_CASE("options of later versions are refused by name", "[cli]") {
  const Workshop w;
  const Arguments option = GENERATE(Arguments{"--log-dir", "logs"}, Arguments{"--seq-len", "8"});
  Arguments all = {"run", w.model};
  all.insert(all.end(), option.begin(), option.end());
  const ProgramResult r = run_trainrt(all);
  CHECK(r.code == 2);
  CHECK_THAT(r.err, ContainsSubstring(option[0]) && ContainsSubstring("not supported"));
}

TEST_CASE("a device that is not there is refused before anything runs", "[cli]") {
  const Workshop w;
  ::setenv("TRAINRT_CUDA_LIBRARY", "/nowhere/libtrainrt_cuda.so", 1);
  const ProgramResult none = run_trainrt({"run", w.model, "--device", "cuda"});
  CHECK(none.code == 3);
  CHECK_THAT(none.err, ContainsSubstring("no CUDA backend") && ContainsSubstring("/nowhere"));
  const ProgramResult listed = run_trainrt({"devices"});
  CHECK(listed.code == 0);
  CHECK_THAT(listed.out, StartsWith("cpu") && ContainsSubstring("cuda  none: "));
  // Nothing runs, so no device is needed.
  const ProgramResult checked = run_trainrt({"check", w.model, "--device", "cuda"});
  CHECK(checked.code == 0);
  const ProgramResult planned =
      run_trainrt({"graph", w.model, "--device", "cuda:3", "--stage", "planned"});
  CHECK(planned.code == 0);
  CHECK_THAT(planned.out, ContainsSubstring("@cuda:arena") && ContainsSubstring("0 transfers"));
  ::unsetenv("TRAINRT_CUDA_LIBRARY");
  const ProgramResult unknown = run_trainrt({"run", w.model, "--device", "tpu"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, ContainsSubstring("tpu") && ContainsSubstring("cpu, cuda"));
  const ProgramResult tf32 = run_trainrt({"run", w.model, "--precision", "tf32"});
  CHECK(tf32.code == 2);
  CHECK_THAT(tf32.err, ContainsSubstring("for GPUs"));
}

TEST_CASE("memory budgets that are no sizes are refused", "[cli]") {
  const Workshop w;
  const std::string size = GENERATE("", "much", "2 elephants", "-1GiB", "0", "1e60", "GiB", "0.5");
  const ProgramResult r = run_trainrt({"run", w.model, "--memory-budget=" + size});
  INFO(size << ": " << r.err);
  CHECK(r.code == 2);
  CHECK_THAT(r.err, ContainsSubstring("--memory-budget"));
}

TEST_CASE("a memory budget too small says what it takes", "[cli]") {
  const Workshop w;
  const ProgramResult r = run_trainrt({"run", w.model, "--memory-budget", "64 B"});
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring("budget of 64 bytes") && ContainsSubstring("at least") &&
                        ContainsSubstring("raise --memory-budget"));
}

TEST_CASE("help and version exit with 0", "[cli]") {
  CHECK(run_trainrt({"--help"}).code == 0);
  CHECK_THAT(run_trainrt({"run", "--help"}).out, ContainsSubstring("--accumulate"));
  CHECK_THAT(run_trainrt({"version"}).out, StartsWith("trainrt "));
  CHECK_THAT(run_trainrt({"--version"}).out, StartsWith("trainrt "));
  CHECK_THAT(run_trainrt({"devices"}).out, StartsWith("cpu"));
}

TEST_CASE("files that cannot be read are named", "[cli]") {
  const Workshop w;
  const ProgramResult model = run_trainrt({"run", w.folder.file("absent.onnx")});
  CHECK(model.code == 1);
  CHECK_THAT(model.err, ContainsSubstring("absent.onnx"));
  const ProgramResult data = run_trainrt({"run", w.model, "--data", w.folder.file("absent.npz")});
  CHECK(data.code == 1);
  CHECK_THAT(data.err, ContainsSubstring("absent.npz"));
}

TEST_CASE("outputs that cannot be written stop the run before it starts", "[cli]") {
  const Workshop w;
  const char* option = GENERATE("--out", "--state-out", "--checkpoint");
  const ProgramResult r =
      run_trainrt({"run", w.model, "--json", option, w.folder.file("no/such/folder/file")});
  CHECK(r.code == 1);
  CHECK(r.out.empty());
  CHECK_THAT(r.err, ContainsSubstring("no/such/folder"));
}

TEST_CASE("unknown ops are listed at once, with exit code 3", "[cli]") {
  const Workshop w;
  const std::string path = w.folder.write("u.onnx", mlp_with_unknown_ops().SerializeAsString());
  for (const char* command : {"run", "check"}) {
    const ProgramResult r = run_trainrt({command, path});
    INFO(r.err);
    CHECK(r.code == 3);
    CHECK_THAT(r.out + r.err, ContainsSubstring("fancy_1") && ContainsSubstring("plain_2"));
  }
  const ProgramResult r = run_trainrt({"check", path, "--json"});
  CHECK(r.code == 3);
  const auto report = nlohmann::json::parse(r.out);
  CHECK(report["trainable"] == false);
  REQUIRE(report["problems"].size() == 2);
  CHECK(report["problems"][0]["node"] == "fancy_1");
  CHECK(report["problems"][0]["op"] == "Fancy");
  CHECK(report["problems"][0]["domain"] == "vendor");
  for (const char* key : {"opset", "kind", "reason"}) CHECK(report["problems"][1].contains(key));
}

TEST_CASE("a model without parameters is refused", "[cli]") {
  const Workshop w;
  const std::string path = w.folder.write("n.onnx", without_parameters().SerializeAsString());
  const ProgramResult r = run_trainrt({"run", path});
  CHECK(r.code == 3);
  CHECK_THAT(r.err, StartsWith("trainrt: ") && ContainsSubstring("train"));
}

TEST_CASE("a file that is no model is refused", "[cli]") {
  const Workshop w;
  const ProgramResult r = run_trainrt({"run", w.folder.write("x.onnx", "\xff\xff no model")});
  CHECK((r.code == 1 || r.code == 3));
  CHECK_THAT(r.err, ContainsSubstring("x.onnx"));
}

TEST_CASE("batches that do not fit are explained", "[cli]") {
  const Workshop w;
  const Tensor ids = Tensor::from<int64_t>({0, 1, 2, 0, 7}, {5});
  struct Case {
    std::string text;
    std::vector<std::pair<std::string, Tensor>> arrays;
  };
  const Case c = GENERATE_COPY(
      Case{"expected float32[n,4], given float32[5,1,4]", {{"x", kX.reshape({5, 1, 4})}}},
      Case{"expected float32[n,4], given float32[5,6]", {{"x", Tensor(DType::kFloat32, {5, 6})}}},
      Case{"expected float32[n,4], given int64[5,4]", {{"x", Tensor(DType::kInt64, {5, 4})}}},
      Case{"'x'", {}}, Case{"7", {{"x", kX}, {"target", ids}}},
      Case{"4", {{"x", kX}, {"target", Tensor(DType::kInt64, {4})}}});
  auto arrays = c.arrays;
  if (arrays.size() < 2) arrays.emplace_back("target", Tensor(DType::kInt64, {5}));
  const ProgramResult r = run_trainrt({"grad", w.model, "--data", w.npz("b.npz", arrays), "--loss",
                                       "cross_entropy", "--out", w.folder.file("g.npz")});
  INFO(r.err);
  CHECK(r.code == 1);
  CHECK_THAT(r.err, ContainsSubstring(c.text));
}

TEST_CASE("data without a target needs a loss", "[cli]") {
  const Workshop w;
  const ProgramResult r = run_trainrt({"run", w.model, "--data", w.npz("b.npz", {{"x", kX}})});
  CHECK(r.code == 2);
  CHECK_THAT(r.err, ContainsSubstring("--loss sum"));
}

}  // namespace
}  // namespace trainrt
