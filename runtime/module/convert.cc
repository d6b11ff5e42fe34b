// Other types, other memory, other parts.
#include "runtime/module/impl.h"
#include "runtime/module/shared_memory.h"

namespace trainrt {

Module& Module::type(DType dst_type) {
  root_only("type()");
  if (!is_float(dst_type)) {
    throw Error(ErrorCode::kUsage,
                "a module's type is float32, float64, float16 or bfloat16, not " +
                    std::string(dtype_name(dst_type)));
  }
  Session& session = *impl_->session;
  const std::lock_guard lock(session.mutex());
  const DType working = dst_type == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  if (working == DType::kFloat64 && session.options().precision == Precision::kBFloat16) {
    throw Error(ErrorCode::kUsage, "precision bf16 goes with the working type float32 only");
  }
  if (dst_type == session.stored() && working == session.working()) return *this;
  session.set_types(working, dst_type);
  impl_->step = nullptr;
  impl_->input_gradients.clear();
  return *this;
}

Module& Module::to(DType dtype, bool, MemoryFormat) { return type(dtype); }

Module& Module::to(Device device, bool, MemoryFormat) {
  Session& session = *impl_->session;
  const std::lock_guard lock(session.mutex());
  if (device == session.device()) return *this;
  session.set_device(device);
  impl_->step = nullptr;
  impl_->input_gradients.clear();
  return *this;
}

Module& Module::to(const Tensor& like, bool, MemoryFormat) {
  return to(like.device()).type(like.dtype());
}

Module& Module::to_empty(Device device, bool recurse) {
  to(device);
  for (Parameter& p : parameters(recurse)) p.value().fill(0);
  for (Tensor& buffer : buffers(recurse)) buffer.fill(0);
  return *this;
}

void Module::set_submodule(const std::string& target, const Module& module, bool strict) {
  root_only("set_submodule()");
  module.root_only("set_submodule()'s model");
  if (target.empty()) {
    throw Error(ErrorCode::kUsage, "set_submodule() needs the path of a submodule");
  }
  if (!strict && !impl_->places.contains(target)) return;
  get_submodule(target);
  if (module.impl_ == impl_) {
    throw Error(ErrorCode::kUsage, "set_submodule(): a model cannot be a part of itself");
  }
  Session& session = *impl_->session;
  const std::lock_guard lock(session.mutex());
  session.replace_model(session.model().with_submodule(target, module.session()->model()));
  impl_->look_at_model();
  impl_->step = nullptr;
  impl_->input_gradients.clear();
  // The part's weights may have been trained since they were read.
  for (const auto& p : module.session()->parameters()) {
    const auto own = session.find_parameter(join(target, p->info.name));
    if (own != nullptr) own->value().copy_from(p->value().to(own->value().dtype()));
  }
  const Store& buffers = module.session()->buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    Tensor own = session.buffers().find(join(target, buffers.names()[i]));
    if (own.defined()) own.copy_from(buffers.at(i).to(own.dtype()));
  }
}

std::string Module::share_memory() {
  root_only("share_memory()");
  Session& session = *impl_->session;
  const std::lock_guard lock(session.mutex());
  const auto all = [&] {
    StateDict state;
    for (auto& [name, parameter] : named_parameters()) state.emplace_back(name, parameter.value());
    for (auto& [name, buffer] : named_buffers()) state.emplace_back(name, buffer);
    return state;
  };
  const StateDict state = all();
  const auto shared = std::make_shared<SharedMemory>(SharedMemory::create(state));
  size_t used = 0;
  session.move_state([&](size_t bytes) {
    void* at = shared->data() + used;
    used += bytes;
    return std::pair<void*, std::shared_ptr<void>>(at, shared);
  });
  shared->set_places(all());
  impl_->step = nullptr;
  return shared->name();
}

}  // namespace trainrt
