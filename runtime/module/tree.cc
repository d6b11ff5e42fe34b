// The tree of modules: walking, printing, modes and frozen parts.
#include <algorithm>
#include <ostream>

#include "runtime/module/impl.h"
#include "runtime/module/names.h"

namespace trainrt {
namespace {

void print(std::ostream& out, const Module& module, const std::string& indent) {
  const std::string extra = module.extra_repr();
  const auto children = module.named_children();
  out << (module.type_name().empty() ? "Module" : module.type_name()) << "(" << extra;
  if (children.empty()) {
    out << ")";
    return;
  }
  for (const auto& [name, child] : children) {
    out << "\n" << indent << "  (" << name << "): ";
    print(out, child, indent + "  ");
  }
  out << "\n" << indent << ")";
}

}  // namespace

std::string join(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "." + b;
}

bool lies_in(const std::string& path, const std::string& module) {
  return module.empty() || path == module || path.starts_with(module + ".");
}

std::string relative(const std::string& path, const std::string& module) {
  if (module.empty() || !lies_in(path, module)) return path;
  return path == module ? "" : path.substr(module.size() + 1);
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  print(out, module, "");
  return out;
}

std::string Module::type_name() const {
  const ModuleInfo& info = impl_->tree()[impl_->places.at(path_)];
  if (!info.type.empty() || !path_.empty()) return info.type;
  return module().name;
}

std::string Module::extra_repr() const { return impl_->tree()[impl_->places.at(path_)].extra; }

std::vector<Module> Module::children() const {
  std::vector<Module> list;
  const auto found = impl_->children.find(path_);
  if (found == impl_->children.end()) return list;
  for (const std::string& path : found->second) list.push_back(impl_->handle(path));
  return list;
}

std::vector<std::pair<std::string, Module>> Module::named_children() const {
  std::vector<std::pair<std::string, Module>> list;
  for (const Module& child : children()) list.emplace_back(relative(child.path(), path_), child);
  return list;
}

std::vector<std::pair<std::string, Module>> Module::named_modules(std::set<std::string>* memo,
                                                                  const std::string& prefix,
                                                                  bool) const {
  std::vector<std::pair<std::string, Module>> list;
  for (const ModuleInfo& info : impl_->tree()) {
    if (!lies_in(info.path, path_)) continue;
    if (memo != nullptr && !memo->insert(info.path).second) continue;
    list.emplace_back(join(prefix, relative(info.path, path_)), impl_->handle(info.path));
  }
  return list;
}

std::vector<Module> Module::modules() const {
  std::vector<Module> list;
  for (auto& [name, module] : named_modules()) list.push_back(std::move(module));
  return list;
}

Module Module::get_submodule(const std::string& target) const {
  const std::string path = join(path_, target);
  if (impl_->places.contains(path)) return impl_->handle(path);
  std::vector<std::string> known;
  for (const auto& [name, module] : named_modules()) {
    if (!name.empty()) known.push_back(name);
  }
  const std::string nearest = nearest_name(target, known);
  throw Error(ErrorCode::kUsage, "there is no submodule '" + target + "'" +
                                     (path_.empty() ? "" : " below '" + path_ + "'") +
                                     (nearest.empty() ? "" : "; the nearest is '" + nearest + "'"));
}

Module& Module::apply(const std::function<void(Module&)>& fn) {
  for (Module& child : children()) child.apply(fn);
  fn(*this);
  return *this;
}

void Module::add_module(const std::string& name, const Module&) {
  throw Error(ErrorCode::kUnsupported,
              "add_module('" + name +
                  "'): the graph is the file's, nothing can be added to it; set_submodule() puts "
                  "another model in the place of a part");
}

void Module::register_module(const std::string& name, const Module& module) {
  add_module(name, module);
}

Module& Module::train(bool mode) {
  impl_->set_mode(path_, mode);
  return *this;
}

bool Module::is_training() const { return impl_->mode_of(path_); }

void Module::zero_grad(bool set_to_none) {
  for (Parameter& p : parameters()) {
    if (set_to_none) {
      p.set_grad({});
    } else if (Tensor grad = p.grad(); grad.defined()) {
      grad.fill(0);
    }
  }
}

Module& Module::requires_grad_(bool on) {
  for (Parameter& p : parameters()) p.requires_grad_(on);
  return *this;
}

}  // namespace trainrt
