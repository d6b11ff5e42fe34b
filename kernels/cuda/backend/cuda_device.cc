#include "kernels/cuda/backend/cuda_device.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "kernels/cuda/backend/check.h"
#include "kernels/cuda/backend/images.h"
#include "kernels/cuda/backend/libraries.h"
#include "kernels/cuda/backend/nvrtc.h"

namespace trainrt::cuda {
namespace {

constexpr int kOldest = 80;  // compute capability

[[noreturn]] void unsupported(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, what);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

cudaLibrary_t load(const void* image, const std::string& what) {
  cudaLibrary_t library = nullptr;
  const cudaError_t status =
      cudaLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (status != cudaSuccess) check(status, ("loading " + what).c_str());
  return library;
}

}  // namespace

int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) {
    unsupported("there is no NVIDIA driver (libcuda.so.1) on this machine: install one for CUDA " +
                version_text(runtime) + " or newer");
  }
  if (status == cudaErrorInsufficientDriver || driver < runtime / 1000 * 1000) {
    unsupported("the NVIDIA driver is too old: it is for CUDA " + version_text(driver) +
                ", trainrt was built for " + version_text(runtime));
  }
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    unsupported("there is no CUDA device on this machine (or CUDA_VISIBLE_DEVICES hides it)");
  }
  unsupported(std::string("no CUDA device can be used: ") + cudaGetErrorName(status) + " (" +
              cudaGetErrorString(status) + ")");
}

gpu::Properties properties_of(int index) {
  cudaDeviceProp found{};
  TRAINRT_CUDA(cudaGetDeviceProperties(&found, index));
  return {index,       found.name,           found.major,
          found.minor, found.totalGlobalMem, found.multiProcessorCount};
}

CudaDevice::CudaDevice(int index) : index_(index), cache_(cache_folder()) {
  const int count = device_count();
  if (index < 0 || index >= count) {
    unsupported("there is no cuda:" + std::to_string(index) + ": this machine has " +
                (count == 1 ? "one CUDA device, cuda:0"
                            : std::to_string(count) + " CUDA devices, from cuda:0"));
  }
  properties_ = properties_of(index);
  if (10 * properties_.major + properties_.minor < kOldest) {
    unsupported("cuda:" + std::to_string(index) + " (" + properties_.name +
                ") has compute capability " + std::to_string(properties_.major) + "." +
                std::to_string(properties_.minor) + "; trainrt needs 8.0 or newer");
  }
  use();
  architecture_ = architecture_for(properties_.major, properties_.minor);
  for (const Image& image : device_images()) images_.push_back(load(image.data, image.name));
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(index_);
  cublas_.reset();
  cudnn_.reset();
  functions_.clear();
  for (const auto* list : {&images_, &modules_}) {
    for (cudaLibrary_t library : *list) cudaLibraryUnload(library);
  }
}

void CudaDevice::use() const { TRAINRT_CUDA(cudaSetDevice(index_)); }

size_t CudaDevice::free_memory() const {
  use();
  size_t free = 0, total = 0;
  TRAINRT_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

void* CudaDevice::allocate(size_t bytes) {
  use();
  void* address = nullptr;
  const cudaError_t status = cudaMalloc(&address, std::max<size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error(ErrorCode::kMemory, "no " + std::to_string(bytes) +
                                        " bytes on cuda:" + std::to_string(index_) + ": " +
                                        std::to_string(free_memory()) + " are free");
  }
  check(status, "cudaMalloc");
  return address;
}

void CudaDevice::free(void* address) noexcept {
  cudaSetDevice(index_);
  cudaFree(address);
}

void* CudaDevice::allocate_host(size_t bytes) {
  use();
  void* address = nullptr;
  TRAINRT_CUDA(cudaMallocHost(&address, std::max<size_t>(bytes, 1)));
  return address;
}

void CudaDevice::free_host(void* address) noexcept { cudaFreeHost(address); }

const gpu::Function* CudaDevice::function(std::string_view name) {
  use();
  const auto known = functions_.find(name);
  if (known != functions_.end()) return known->second.get();
  for (cudaLibrary_t image : images_) {
    cudaKernel_t kernel = nullptr;
    if (cudaLibraryGetKernel(&kernel, image, std::string(name).c_str()) != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    auto& function = functions_[std::string(name)];
    function = std::make_unique<gpu::Function>();
    function->name = name;
    function->kernel = kernel;
    return function.get();
  }
  throw Error(ErrorCode::kInternal, "no device function '" + std::string(name) + "'");
}

const gpu::Function* CudaDevice::compile(const std::string& source, std::string_view name) {
  auto& function = functions_["\n" + source];  // no name of a function
  if (function != nullptr) return function.get();
  function = std::make_unique<gpu::Function>();
  function->name = name;
  pending_.push_back({function.get(), source, {}, nullptr});
  return function.get();
}

void CudaDevice::finish_compiling() {
  use();
  std::vector<Pending> pending = std::exchange(pending_, {});
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < pending.size(); i = next++) {
      try {
        pending[i].code = cached_source(pending[i].source, architecture_, cache_);
      } catch (...) {
        pending[i].error = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (size_t t = 1; t < std::min(cores, pending.size()); ++t) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  for (const Pending& p : pending) {
    if (p.error != nullptr) {
      // Asked for again, it is compiled again.
      for (const Pending& all : pending) functions_.erase("\n" + all.source);
      std::rethrow_exception(p.error);
    }
  }
  for (const Pending& p : pending) {
    cudaLibrary_t module = load(p.code.data(), p.function->name);
    modules_.push_back(module);
    TRAINRT_CUDA(cudaLibraryGetKernel(&p.function->kernel, module, p.function->name.c_str()));
  }
}

CublasLt& CudaDevice::cublas() {
  use();
  if (cublas_ == nullptr) cublas_ = make_cublas(properties_);
  return *cublas_;
}

Cudnn& CudaDevice::cudnn() {
  use();
  if (cudnn_ == nullptr) cudnn_ = make_cudnn();
  return *cudnn_;
}

std::unique_ptr<gpu::LibraryCall> CudaDevice::matmul(const gpu::MatMulCall& call,
                                                     std::string* why) {
  return cublas().matmul(call, why);
}

std::unique_ptr<gpu::LibraryCall> CudaDevice::convolution(const gpu::ConvCall& call,
                                                          std::string* why) {
  return cudnn().convolution(call, why);
}

std::unique_ptr<gpu::LibraryCall> CudaDevice::attention(const gpu::AttentionCall& call,
                                                        std::string* why) {
  return cudnn().attention(call, why);
}

std::unique_ptr<gpu::LibraryCall> CudaDevice::pool(const gpu::PoolCall& call, std::string* why) {
  return cudnn().pool(call, why);
}

std::unique_ptr<gpu::LibraryCall> CudaDevice::softmax(const gpu::SoftmaxCall& call,
                                                      std::string* why) {
  return cudnn().softmax(call, why);
}

}  // namespace trainrt::cuda
