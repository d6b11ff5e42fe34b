// All sources that whole models and single ops generate, compiled by NVRTC for devices of which
// there is none here.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>

#include "kernels/cuda/backend/nvrtc.h"
#include "runtime/gpu_context.h"
#include "tests/cuda/emulator/device.h"
#include "trainrt/data.h"
#include "trainrt/module.h"
#include "trainrt/trainer.h"

namespace trainrt {
namespace {

using namespace testing;

/// The model files of the project, and of the folders that TRAINRT_MODELS names (A:B).
std::vector<std::string> model_files() {
  std::vector<std::string> files;
  const char* more = std::getenv("TRAINRT_MODELS");
  std::stringstream folders(std::string("tests/models:") + (more == nullptr ? "" : more));
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".onnx") files.push_back(entry.path().string());
    }
  }
  return files;
}

/// The inputs beside a model of the project, or made-up ones.
TensorMap batch_of(const std::string& path, const Module& module) {
  const std::string data = path.substr(0, path.size() - 5) + ".npz";
  TensorMap batch;
  if (std::filesystem::exists(data)) {
    for (const auto& [name, array] : load_npz(data)) {
      if (name.starts_with("in/")) batch[name.substr(3)] = array;
    }
  }
  return batch.empty() ? synthetic_inputs(module, 2, 0) : batch;
}

/// What planning a training step of every model asks a device to compile.
std::set<std::string> sources_of_models(Precision precision) {
  std::set<std::string> sources;
  for (const std::string& path : model_files()) {
    INFO(path);
    EmulatedDevice* device = nullptr;
    set_gpu_source([&](int) {
      EmulatedOptions options;
      options.compile = false;
      auto made = make_emulated_device(options);
      device = made.get();
      return made;
    });
    ModuleOptions options;
    options.device = Device{DeviceType::kCuda, 0};
    options.precision = precision;
    const Module module(path, options);
    for (const char* optimizer : {"sgd", "adamw"}) {
      TrainerOptions training;
      training.losses = {"mean"};
      training.optimizer = optimizer;
      training.clip_norm = 1.0;
      Trainer trainer(module, training);
      try {
        trainer.plan(batch_of(path, module));
      } catch (const Error& e) {
        // Models from elsewhere may need other inputs, or have nothing to train.
        if (path.starts_with("tests/models")) throw;
        WARN(path << ": " << e.what());
      }
    }
    REQUIRE(device != nullptr);
    sources.insert(device->counts().sources.begin(), device->counts().sources.end());
  }
  return sources;
}

void compile_all(const std::set<std::string>& sources, const std::string& architecture) {
  const std::vector<std::string> list(sources.begin(), sources.end());
  std::vector<std::string> failures(list.size());
  const size_t workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      for (size_t i = w; i < list.size(); i += workers) {
        try {
          if (cuda::compile_source(list[i], architecture).empty()) failures[i] = "no code";
        } catch (const std::exception& e) {
          failures[i] = e.what();
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& failure : failures) {
    INFO(failure);
    CHECK(failure.empty());
  }
}

TEST_CASE("the sources of all models compile for sm_80 and sm_90") {
  std::set<std::string> sources = sources_of_models(Precision::kFloat32);
  CHECK(sources.size() > 100);
  const std::set<std::string> half = sources_of_models(Precision::kBFloat16);
  sources.insert(half.begin(), half.end());
  WARN(sources.size() << " sources");
  for (const char* architecture : {"sm_80", "sm_90"}) {
    INFO(architecture);
    compile_all(sources, architecture);
  }
}

}  // namespace
}  // namespace trainrt
