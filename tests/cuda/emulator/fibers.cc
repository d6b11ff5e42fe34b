#include "tests/cuda/emulator/fibers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace trainrt_emulated {
namespace {

std::map<std::string, KernelFunction>& registry() {
  static std::map<std::string, KernelFunction> kernels;
  return kernels;
}

// Switching stacks. ucontext does it everywhere, with two system calls each time.
#if defined(__x86_64__)
extern "C" void trainrt_switch_stack(void** from, void* to);
asm(R"(
.text
.globl trainrt_switch_stack
.type trainrt_switch_stack, @function
trainrt_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size trainrt_switch_stack, .-trainrt_switch_stack
)");

class Stack {
 public:
  void prepare(void (*entry)()) {
    if (!memory_) memory_ = std::make_unique<std::byte[]>(kBytes);
    auto top = reinterpret_cast<uintptr_t>(memory_.get() + kBytes) / 16 * 16;
    auto* slots = reinterpret_cast<void**>(top) - 8;  // six registers, the entry, a return address
    for (int i = 0; i < 6; ++i) slots[i] = nullptr;
    slots[6] = reinterpret_cast<void*>(entry);
    slots[7] = nullptr;
    position_ = slots;
  }
  void enter(void** scheduler) { trainrt_switch_stack(scheduler, position_); }
  void leave(void* scheduler) { trainrt_switch_stack(&position_, scheduler); }
  using Scheduler = void*;

 private:
  static constexpr size_t kBytes = size_t{128} << 10;
  std::unique_ptr<std::byte[]> memory_;
  void* position_ = nullptr;
};
#else
class Stack {
 public:
  using Scheduler = ucontext_t;
  void prepare(void (*entry)()) {
    if (!memory_) memory_ = std::make_unique<std::byte[]>(kBytes);
    getcontext(&context_);
    context_.uc_stack.ss_sp = memory_.get();
    context_.uc_stack.ss_size = kBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, entry, 0);
  }
  void enter(ucontext_t* scheduler) { swapcontext(scheduler, &context_); }
  void leave(ucontext_t& scheduler) { swapcontext(&context_, &scheduler); }

 private:
  static constexpr size_t kBytes = size_t{128} << 10;
  std::unique_ptr<std::byte[]> memory_;
  ucontext_t context_;
};
#endif

struct Fiber {
  Stack stack;
  unsigned thread = 0;
};

/// One block. A fiber takes threads until one of them waits at a barrier; then the next fiber goes
/// on with the rest.
class Block {
 public:
  void run(KernelFunction kernel, const void* arguments, unsigned threads, bool backwards) {
    kernel_ = kernel;
    arguments_ = arguments;
    threads_ = threads;
    backwards_ = backwards;
    next_ = finished_ = 0;
    waiting_.clear();
    for (auto& w : warps_) w.clear();
    while (finished_ < threads_) {
      if (!ready_.empty()) {
        Fiber* fiber = ready_.front();
        ready_.pop_front();
        enter(fiber);
      } else if (next_ < threads_) {
        enter(fresh());
      } else {
        fail();
      }
    }
  }

  void wait_for_block() {
    waiting_.push_back(current_);
    if (waiting_.size() == threads_) {
      ready_.insert(ready_.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
    }
    leave();
  }

  void wait_for_warp() {
    const unsigned warp = current_->thread / 32;
    std::vector<Fiber*>& lanes = warps_[warp];
    lanes.push_back(current_);
    if (lanes.size() == std::min(32u, threads_ - warp * 32)) {
      ready_.insert(ready_.end(), lanes.begin(), lanes.end());
      lanes.clear();
    }
    leave();
  }

  Context context{};

 private:
  static void entry();

  Fiber* fresh() {
    if (idle_.empty()) {
      all_.push_back(std::make_unique<Fiber>());
      idle_.push_back(all_.back().get());
    }
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    fiber->stack.prepare(&Block::entry);
    return fiber;
  }

  void enter(Fiber* fiber) {
    current_ = fiber;
    set_thread();
    fiber->stack.enter(&scheduler_);
  }

  void leave() { current_->stack.leave(scheduler_); }

  void set_thread() { context.thread = {current_->thread, 0, 0}; }

  void take_threads() {
    Fiber* self = current_;
    while (next_ < threads_) {
      self->thread = backwards_ ? threads_ - 1 - next_ : next_;
      ++next_;
      set_thread();
      kernel_(arguments_);
      ++finished_;
    }
    idle_.push_back(self);
    self->stack.leave(scheduler_);
  }

  [[noreturn]] void fail() {
    // Its fibers are lost; the next block starts with others.
    idle_.clear();
    ready_.clear();
    throw std::runtime_error("a barrier that " + std::to_string(finished_) + " of " +
                             std::to_string(threads_) + " threads do not reach");
  }

  KernelFunction kernel_ = nullptr;
  const void* arguments_ = nullptr;
  unsigned threads_ = 0, next_ = 0, finished_ = 0;
  bool backwards_ = false;
  Fiber* current_ = nullptr;
  Stack::Scheduler scheduler_{};
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> idle_;
  std::deque<Fiber*> ready_;
  std::vector<Fiber*> waiting_;
  std::array<std::vector<Fiber*>, 8> warps_;
};

Block& block() {
  static Block b;
  return b;
}

void Block::entry() {
  block().take_threads();
  std::abort();  // nobody enters a fiber that has ended
}

}  // namespace

Registration::Registration(const char* name, void* function) {
  registry()[name] = reinterpret_cast<KernelFunction>(function);
}

KernelFunction find_kernel(const std::string& name) {
  const auto it = registry().find(name);
  return it == registry().end() ? nullptr : it->second;
}

Context* current_context() { return &block().context; }

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const auto& [name, function] : registry()) names.push_back(name);
  return names;
}

void run_kernel(KernelFunction kernel, trainrt::gpu::Size3 grid, unsigned threads,
                const void* arguments, bool backwards) {
  if (threads == 0 || threads > 256 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.y > 65535 || grid.z > 65535 || grid.x > 2147483647u) {
    throw std::runtime_error("a grid of " + std::to_string(grid.x) + " x " +
                             std::to_string(grid.y) + " x " + std::to_string(grid.z) +
                             " blocks of " + std::to_string(threads) + " threads");
  }
  Block& b = block();
  b.context.block_size = {threads, 1, 1};
  b.context.grid_size = {grid.x, grid.y, grid.z};
  b.context.block_barrier = [] { block().wait_for_block(); };
  b.context.warp_barrier = [] { block().wait_for_warp(); };
  trainrt_emulated_context = &b.context;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        b.context.block = {x, y, z};
        b.run(kernel, arguments, threads, backwards);
      }
    }
  }
}

}  // namespace trainrt_emulated

trainrt_emulated::Context* trainrt_emulated_context = nullptr;
