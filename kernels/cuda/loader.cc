#include "kernels/cuda/loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "kernels/cuda/abi.h"
#include "kernels/cuda/backend.h"
#include "trainrt/error.h"

namespace trainrt::cuda {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "libtrainrt_cuda.so";

[[noreturn]] void missing(const std::string& what) { throw Error(ErrorCode::kUnsupported, what); }

/// The folder of the program or library that has this function.
fs::path own_folder() {
  Dl_info info{};
  std::error_code ignored;
  fs::path own;
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) != 0 && info.dli_fname != nullptr) {
    own = fs::canonical(info.dli_fname, ignored);
  }
  // A program's own name may be relative to a folder that it has left.
  if (own.empty()) own = fs::read_symlink("/proc/self/exe", ignored);
  return own.parent_path();
}

std::vector<std::string> places() {
  if (const char* given = std::getenv("TRAINRT_CUDA_LIBRARY")) return {given};
  std::vector<std::string> result;
  const fs::path own = own_folder();
  if (!own.empty()) {
    for (const char* from : {"", "../lib", "../../kernels/cuda/backend"}) {
      result.push_back((own / from / kName).lexically_normal().string());
    }
  }
  result.push_back(kName);
  return result;
}

const Backend& load() {
  std::string looked;
  for (const std::string& place : places()) {
    const bool path = place.find('/') != std::string::npos;
    looked += (looked.empty() ? "" : ", ") + place;
    if (path && !fs::exists(place)) continue;
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const std::string reason = dlerror();
      // Only the system's own search says so of the library itself.
      if (!path && reason.starts_with(std::string(kName) + ":")) continue;
      missing("the CUDA backend " + place + " cannot be opened: " + reason +
              " (one of NVIDIA's libraries is missing or another version: install CUDA 13 with "
              "cuBLAS, cuDNN 9 and NVRTC, or name their folder in LD_LIBRARY_PATH)");
    }
    const auto* backend = static_cast<const Backend*>(dlsym(library, "trainrt_cuda_backend"));
    if (backend == nullptr) missing(place + " is no CUDA backend of trainrt");
    if (std::strcmp(backend->abi, kAbi) != 0) {
      missing("the CUDA backend " + place +
              " belongs to another build of trainrt: build both from the same source");
    }
    return *backend;  // never closed: its code may be in exceptions on their way
  }
  missing(std::string("this trainrt has no CUDA backend: ") + kName + " is not at " + looked +
          ". Build it where there is a CUDA toolkit (bazel build -c opt "
          "//kernels/cuda/backend:libtrainrt_cuda.so), or set TRAINRT_CUDA_LIBRARY");
}

const Backend& backend() {
  static const Backend& loaded = load();  // tried again after an exception
  return loaded;
}

}  // namespace

std::unique_ptr<gpu::Device> open_gpu(int index) {
  return std::unique_ptr<gpu::Device>(backend().open(index));
}

std::vector<gpu::Properties> list_gpus() { return backend().list(); }

}  // namespace trainrt::cuda
