// oneDNN behind the kernels of this folder: one engine, one stream, and primitives whose arguments
// are built once.
#ifndef TRAINRT_KERNELS_CPU_ONEDNN_H_
#define TRAINRT_KERNELS_CPU_ONEDNN_H_

#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace trainrt {

/// The CPU engine and its stream, shared by the process.
const dnnl::engine& onednn_engine();

/// Throws Error(kMemory) or Error(kRuntime) unless the status is success.
void check_onednn(dnnl_status_t status, const char* what);

/// Runs f; errors of oneDNN become Error(kMemory) or Error(kRuntime).
template <typename F>
auto guard_onednn(const char* what, F&& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    check_onednn(e.status, what);
    throw;
  }
}

/// f32 or bf16
inline dnnl::memory::data_type onednn_type(const TensorType& type) {
  return type.dtype == DType::kBFloat16 ? dnnl::memory::data_type::bf16
                                        : dnnl::memory::data_type::f32;
}

/// A float32 descriptor, dense in the order of `strides`.
inline dnnl::memory::desc float_desc(const dnnl::memory::dims& dims,
                                     const dnnl::memory::dims& strides) {
  return dnnl::memory::desc(dims, dnnl::memory::data_type::f32, strides);
}

/// A primitive with its arguments in a C array: an execution sets addresses and calls, no more.
class OneDnnPrimitive {
 public:
  OneDnnPrimitive() = default;
  OneDnnPrimitive(const dnnl::primitive& primitive,
                  const std::vector<std::pair<int, dnnl::memory::desc>>& args);

  /// Addresses in the order of the constructor's list.
  void execute(std::initializer_list<void*> addresses) const;

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> args_;
};

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_ONEDNN_H_
