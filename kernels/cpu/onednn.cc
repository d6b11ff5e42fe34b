#include "kernels/cpu/onednn.h"

#include "trainrt/error.h"

#ifdef __SANITIZE_ADDRESS__
// oneDNN 3.7 loses 12 bytes whenever it makes a descriptor of a backward-data convolution.
extern "C" const char* __lsan_default_suppressions() { return "leak:libdnnl"; }
#endif

namespace trainrt {
namespace {

const dnnl::stream& onednn_stream() {
  static const dnnl::stream stream(onednn_engine());
  return stream;
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

bool cpu_runs_bf16() {
  static const bool runs = [] {
    const auto matrix = [](dnnl::memory::data_type type) {
      return dnnl::memory::desc({64, 64}, type, dnnl::memory::format_tag::ab);
    };
    const auto half = matrix(dnnl::memory::data_type::bf16);
    try {
      const dnnl::matmul::primitive_desc pd(onednn_engine(), half, half,
                                            matrix(dnnl::memory::data_type::f32));
      return std::string(pd.impl_info_str()).find("ref") == std::string::npos;
    } catch (const dnnl::error&) {
      return false;
    }
  }();
  return runs;
}

void check_onednn(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  const bool memory = status == dnnl_out_of_memory;
  throw Error(memory ? ErrorCode::kMemory : ErrorCode::kRuntime,
              std::string("oneDNN: ") + what + " failed with status " + std::to_string(status) +
                  (memory ? " (out of memory)" : ""));
}

OneDnnPrimitive::OneDnnPrimitive(const dnnl::primitive& primitive,
                                 const std::vector<std::pair<int, dnnl::memory::desc>>& args)
    : primitive_(primitive) {
  memories_.reserve(args.size());
  for (const auto& [index, desc] : args) {
    memories_.emplace_back(desc, onednn_engine(), nullptr);
    args_.push_back({index, memories_.back().get()});
  }
}

void OneDnnPrimitive::execute(std::initializer_list<void*> addresses) const {
  size_t i = 0;
  for (void* address : addresses) {
    check_onednn(dnnl_memory_set_data_handle(args_[i++].memory, address), "setting an address");
  }
  check_onednn(dnnl_primitive_execute(primitive_.get(), onednn_stream().get(),
                                      static_cast<int>(args_.size()), args_.data()),
               "execution");
}

}  // namespace trainrt
