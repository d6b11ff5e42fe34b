// Which GPUs there are.
#include <map>
#include <mutex>

#include "kernels/cuda/loader.h"
#include "runtime/gpu_context.h"

namespace trainrt {
namespace {

struct Gpus {
  std::mutex mutex;
  std::function<std::unique_ptr<gpu::Device>(int)> source;
  std::map<int, std::weak_ptr<gpu::Device>> open;
};

Gpus& gpus() {
  static Gpus g;
  return g;
}

}  // namespace

std::shared_ptr<gpu::Device> find_gpu(int index) {
  Gpus& g = gpus();
  const std::lock_guard lock(g.mutex);
  if (auto device = g.open[index].lock()) return device;
  std::shared_ptr<gpu::Device> device =
      g.source ? g.source(index) : std::unique_ptr<gpu::Device>(cuda::open_gpu(index));
  g.open[index] = device;
  return device;
}

void set_gpu_source(std::function<std::unique_ptr<gpu::Device>(int)> source) {
  Gpus& g = gpus();
  const std::lock_guard lock(g.mutex);
  g.source = std::move(source);
  g.open.clear();
}

}  // namespace trainrt
