#include "tests/cuda/emulator/device.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>

#include "tests/cuda/emulator/fibers.h"
#include "tests/cuda/emulator/sources.h"
#include "trainrt/error.h"

namespace trainrt::gpu {

class Function {
 public:
  std::string name;
  trainrt_emulated::KernelFunction run = nullptr;
};

}  // namespace trainrt::gpu

namespace trainrt::testing {
namespace {

using gpu::Function;

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Allocations that only running work may touch. Each ends where a page ends, and the next page is
/// never there.
class Memory {
 public:
  ~Memory() {
    for (auto& [address, block] : blocks_) munmap(block.base, block.mapped);
  }

  void* allocate(size_t bytes) {
    const size_t page = page_bytes();
    const size_t body = (std::max<size_t>(bytes, 1) + page - 1) / page * page;
    void* base = mmap(nullptr, body + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw Error(ErrorCode::kMemory, "no memory for the emulated device");
    // As close to the end as an alignment of 256 allows.
    auto* address = static_cast<std::byte*>(base) + (body - bytes) / 256 * 256;
    blocks_[address] = {base, body, body + page, bytes};
    if (open_ > 0) protect(blocks_[address], PROT_READ | PROT_WRITE);
    bytes_ += bytes;
    if (open_ == 0) protect(blocks_[address], PROT_READ | PROT_WRITE);
    std::memset(address, 0xcd, bytes);  // what nobody wrote is no number that could pass
    if (open_ == 0) protect(blocks_[address], PROT_NONE);
    return address;
  }

  void free(void* address) {
    const auto it = blocks_.find(address);
    if (it == blocks_.end()) std::abort();
    bytes_ -= it->second.bytes;
    munmap(it->second.base, it->second.mapped);
    blocks_.erase(it);
  }

  bool holds(const void* address, size_t bytes) const {
    if (bytes == 0) return true;
    auto it = blocks_.upper_bound(const_cast<void*>(address));
    if (it == blocks_.begin()) return false;
    --it;
    const auto* at = static_cast<const std::byte*>(address);
    const auto* begin = static_cast<const std::byte*>(it->first);
    return at + bytes <= begin + it->second.bytes;
  }

  void open() {
    if (open_++ == 0) {
      for (auto& [address, block] : blocks_) protect(block, PROT_READ | PROT_WRITE);
    }
  }
  void close() {
    if (--open_ == 0) {
      for (auto& [address, block] : blocks_) protect(block, PROT_NONE);
    }
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Block {
    void* base = nullptr;
    size_t body = 0, mapped = 0, bytes = 0;
  };
  static void protect(const Block& block, int how) { mprotect(block.base, block.body, how); }

  std::map<void*, Block> blocks_;
  size_t bytes_ = 0;
  int open_ = 0;
};

using Work = std::function<void()>;

class EmulatedStream;

class EmulatedEvent final : public gpu::Event {
 public:
  EmulatedStream* stream = nullptr;  // that recorded it last
  uint64_t position = 0;             // how much of that stream's work comes before it
};

class EmulatedRecording final : public gpu::Recording {
 public:
  std::vector<Work> work;
};

class EmulatedStream final : public gpu::Stream {
 public:
  EmulatedStream(Memory& memory, EmulatedCounts& counts) : memory_(memory), counts_(counts) {}
  ~EmulatedStream() override { run_until(given_); }

  void launch(const Function* function, gpu::Size3 grid, uint32_t threads, const void* arguments,
              size_t bytes) override {
    if (function == nullptr) throw Error(ErrorCode::kInternal, "a kernel without a function");
    const auto* from = static_cast<const std::byte*>(arguments);
    // A kernel's parameters are aligned as the type asks.
    auto copy = std::make_shared<std::vector<uint64_t>>((bytes + 15) / 8);
    std::memcpy(copy->data(), from, bytes);
    give([this, function, grid, threads, copy] {
      ++counts_.launches;
      try {
        trainrt_emulated::run_kernel(function->run, grid, threads, copy->data(),
                                     counts_.launches % 2 == 0);
      } catch (const std::runtime_error& e) {
        throw Error(ErrorCode::kRuntime, function->name + ": " + e.what());
      }
    });
  }

  void copy_to_device(void* to, const void* from, size_t bytes) override {
    check(to, bytes);
    give([this, to, from, bytes] {
      ++counts_.copies_to_device;
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  void copy_to_host(void* to, const void* from, size_t bytes) override {
    check(from, bytes);
    give([this, to, from, bytes] {
      ++counts_.copies_to_host;
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  void copy_on_device(void* to, const void* from, size_t bytes) override {
    check(to, bytes);
    check(from, bytes);
    give([to, from, bytes] {
      if (bytes > 0) std::memcpy(to, from, bytes);
    });
  }
  void zero(void* to, size_t bytes) override {
    check(to, bytes);
    give([to, bytes] {
      if (bytes > 0) std::memset(to, 0, bytes);
    });
  }

  void record(gpu::Event& event) override {
    auto& e = static_cast<EmulatedEvent&>(event);
    e.stream = this;
    e.position = given_;
  }
  void wait(gpu::Event& event) override {
    const auto& e = static_cast<EmulatedEvent&>(event);
    if (e.stream == nullptr || e.stream == this) return;
    give([stream = e.stream, position = e.position] { stream->run_until(position); });
  }

  void synchronize() override {
    if (recording_) throw Error(ErrorCode::kRuntime, "synchronizing a stream that is recorded");
    ++counts_.synchronizations;
    run_until(given_);
  }

  void begin_recording() override { recording_ = std::make_unique<EmulatedRecording>(); }
  std::unique_ptr<gpu::Recording> end_recording() override {
    ++counts_.recordings;
    return std::move(recording_);
  }
  void run(gpu::Recording& recording) override {
    ++counts_.recordings_run;
    for (const Work& w : static_cast<EmulatedRecording&>(recording).work) give(w);
  }

  void give(Work work) {
    if (recording_) {
      recording_->work.push_back(std::move(work));
      return;
    }
    work_.push_back(std::move(work));
    ++given_;
  }

  void run_until(uint64_t position) {
    memory_.open();
    try {
      while (done_ < position) {
        const Work work = std::move(work_.front());
        work_.pop_front();
        ++done_;
        work();
      }
    } catch (...) {
      memory_.close();
      throw;
    }
    memory_.close();
  }

 private:
  void check(const void* address, size_t bytes) const {
    if (!memory_.holds(address, bytes)) {
      throw Error(ErrorCode::kRuntime,
                  "a copy of " + std::to_string(bytes) + " bytes goes beyond the device's memory");
    }
  }

  Memory& memory_;
  EmulatedCounts& counts_;
  std::deque<Work> work_;
  uint64_t given_ = 0, done_ = 0;
  std::unique_ptr<EmulatedRecording> recording_;
};

/// Generated sources, compiled by the C++ compiler and opened, once in a process.
trainrt_emulated::KernelFunction compile(const std::string& source, const std::string& name) {
  static std::map<std::string, void*> libraries;
  void*& library = libraries[source];
  if (library == nullptr) {
    const char* folder = std::getenv("TEST_TMPDIR");
    std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/trainrt-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
    std::ofstream(path + "/kernel.cc")
        << "#define TRAINRT_EMULATED_LIBRARY\n"
        << kEmulatedCuda << kDeviceHeader << source
        << "\ntrainrt_emulated::Context* trainrt_emulated_context = nullptr;\n";
    const char* compiler = std::getenv("TRAINRT_TEST_CXX");
    const std::string command =
        std::string(compiler != nullptr ? compiler : "g++-14") +
        " -std=c++20 -O1 -fPIC -shared -ffp-contract=off -Wl,-Bsymbolic -o '" + path +
        "/kernel.so' '" + path + "/kernel.cc' 2> '" + path + "/log'";
    if (std::system(command.c_str()) != 0) {
      std::ifstream log(path + "/log");
      std::string text{std::istreambuf_iterator<char>(log), {}};
      throw Error(ErrorCode::kInternal,
                  "a generated source does not compile:\n" + text.substr(0, 2000) + "\n" + source);
    }
    library = dlopen((path + "/kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    std::filesystem::remove_all(path);
  }
  // The block's context is made by the first kernel that runs.
  auto** context =
      static_cast<trainrt_emulated::Context**>(dlsym(library, "trainrt_emulated_context"));
  *context = trainrt_emulated::current_context();
  void* symbol = dlsym(library, name.c_str());
  if (symbol == nullptr) throw Error(ErrorCode::kInternal, "the source has no kernel " + name);
  return reinterpret_cast<trainrt_emulated::KernelFunction>(symbol);
}

class Emulated final : public EmulatedDevice {
 public:
  explicit Emulated(const EmulatedOptions& options) : options_(options) {
    properties_.name = "emulated GPU";
    properties_.major = 9;
    properties_.memory_bytes = options.memory_bytes;
    properties_.multiprocessors = 2;
  }

  const gpu::Properties& properties() const override { return properties_; }
  size_t free_memory() const override { return options_.memory_bytes - memory_.bytes(); }

  void* allocate(size_t bytes) override {
    if (bytes > free_memory()) {
      throw Error(ErrorCode::kMemory,
                  "the emulated device has no " + std::to_string(bytes) + " bytes left");
    }
    void* address = memory_.allocate(bytes);
    counts_.allocated_bytes = memory_.bytes();
    return address;
  }
  void free(void* address) noexcept override {
    if (address == nullptr) return;
    memory_.free(address);
    counts_.allocated_bytes = memory_.bytes();
  }
  void* allocate_host(size_t bytes) override {
    const size_t rounded = (bytes + 64) / 64 * 64;
    void* address = std::aligned_alloc(64, rounded);
    if (address == nullptr) throw Error(ErrorCode::kMemory, "no host memory");
    host_[address] = bytes;
    counts_.host_bytes += bytes;
    return address;
  }
  void free_host(void* address) noexcept override {
    if (address == nullptr) return;
    counts_.host_bytes -= host_.at(address);
    host_.erase(address);
    std::free(address);
  }

  std::unique_ptr<gpu::Stream> make_stream() override {
    return std::make_unique<EmulatedStream>(memory_, counts_);
  }
  std::unique_ptr<gpu::Event> make_event() override { return std::make_unique<EmulatedEvent>(); }

  const Function* function(std::string_view name) override {
    return keep(std::string(name), trainrt_emulated::find_kernel(std::string(name)));
  }
  const Function* compile(const std::string& source, std::string_view name) override {
    counts_.sources.push_back(source);
    if (!options_.compile)
      return keep(
          source, [](const void*) { std::abort(); }, std::string(name));
    return keep(source, testing::compile(source, std::string(name)), std::string(name));
  }
  void finish_compiling() override {}

  std::unique_ptr<gpu::LibraryCall> matmul(const gpu::MatMulCall& call, std::string* why) override {
    return count(allowed(why) ? emulated_matmul(call, why) : nullptr);
  }
  std::unique_ptr<gpu::LibraryCall> convolution(const gpu::ConvCall& call,
                                                std::string* why) override {
    return count(allowed(why) ? emulated_convolution(call, why) : nullptr);
  }
  std::unique_ptr<gpu::LibraryCall> attention(const gpu::AttentionCall& call,
                                              std::string* why) override {
    return count(allowed(why) ? emulated_attention(call, why) : nullptr);
  }
  std::unique_ptr<gpu::LibraryCall> pool(const gpu::PoolCall& call, std::string* why) override {
    return count(allowed(why) ? emulated_pool(call, why) : nullptr);
  }
  std::unique_ptr<gpu::LibraryCall> softmax(const gpu::SoftmaxCall& call,
                                            std::string* why) override {
    return count(allowed(why) ? emulated_softmax(call, why) : nullptr);
  }

  const EmulatedCounts& counts() const override { return counts_; }

 private:
  const Function* keep(const std::string& key, trainrt_emulated::KernelFunction kernel,
                       const std::string& name = {}) {
    if (kernel == nullptr) throw Error(ErrorCode::kInternal, "no device function '" + key + "'");
    auto& function = functions_[key + name];
    if (!function)
      function = std::make_unique<Function>(Function{name.empty() ? key : name, kernel});
    return function.get();
  }
  bool allowed(std::string* why) const {
    if (!options_.libraries && why != nullptr) *why = "libraries are switched off";
    return options_.libraries;
  }
  std::unique_ptr<gpu::LibraryCall> count(std::unique_ptr<gpu::LibraryCall> call) {
    counts_.library_calls += call != nullptr;
    return call;
  }

  EmulatedOptions options_;
  gpu::Properties properties_;
  Memory memory_;
  EmulatedCounts counts_;
  std::map<void*, size_t> host_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
};

}  // namespace

std::unique_ptr<EmulatedDevice> make_emulated_device(const EmulatedOptions& options) {
  return std::make_unique<Emulated>(options);
}

void enqueue(gpu::Stream& stream, std::function<void()> work) {
  static_cast<EmulatedStream&>(stream).give(std::move(work));
}

}  // namespace trainrt::testing
