#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/loader.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/threads.h"
#include "trainrt/device.h"
#include "trainrt/error.h"
#include "trainrt/version.h"

namespace trainrt::cli {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "cpu";
}

/// The GPUs, or one line that says why there are none.
void list_gpus(bool json) {
  std::vector<gpu::Properties> found;
  try {
    found = cuda::list_gpus();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    if (!json) std::printf("cuda  none: %s\n", e.what());
    return;
  }
  for (const gpu::Properties& p : found) {
    const std::string name = to_string(Device{DeviceType::kCuda, p.index});
    const std::string capability = std::to_string(p.major) + "." + std::to_string(p.minor);
    if (json) {
      print_json({{"device", name},
                  {"name", p.name},
                  {"compute_capability", capability},
                  {"multiprocessors", p.multiprocessors},
                  {"memory_bytes", p.memory_bytes}});
    } else {
      std::printf("%s  %s, compute capability %s, %s\n", name.c_str(), p.name.c_str(),
                  capability.c_str(), readable_bytes(static_cast<double>(p.memory_bytes)).c_str());
    }
  }
}

int devices(bool json) {
  const auto memory = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  if (json) {
    print_json({{"device", "cpu"},
                {"name", cpu_model()},
                {"threads", thread_count()},
                {"memory_bytes", memory}});
  } else {
    std::printf("cpu  %s, %d threads, %s\n", cpu_model().c_str(), thread_count(),
                readable_bytes(static_cast<double>(memory)).c_str());
  }
  list_gpus(json);
  return 0;
}

int version(bool json) {
  if (json) {
    print_json({{"version", trainrt::version()}});
  } else {
    std::printf("trainrt %s\n", trainrt::version());
  }
  return 0;
}

void add_simple(CLI::App& app, Command* run, const char* name, const char* help,
                int (*function)(bool)) {
  CLI::App* command = app.add_subcommand(name, help);
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As JSON lines");
  command->callback([json, run, function] { *run = [json, function] { return function(*json); }; });
}

}  // namespace

void add_devices(CLI::App& app, Command* run) {
  add_simple(app, run, "devices", "Where models can be trained", devices);
}

void add_version(CLI::App& app, Command* run) {
  add_simple(app, run, "version", "Of this program", version);
}

}  // namespace trainrt::cli
