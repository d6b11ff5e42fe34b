#include "frontend/scope.h"

namespace trainrt {
namespace {

/// "/net/layers.0/fc/MatMul" -> "net.layers.0.fc": scopes of the TorchScript exporter. A scope
/// repeats the name of its container ("f", then "f.0").
std::string torchscript_scope(std::string_view name) {
  if (name.empty() || name[0] != '/') return "";
  std::vector<std::string_view> parts;
  size_t begin = 1;
  for (size_t slash; (slash = name.find('/', begin)) != std::string_view::npos; begin = slash + 1) {
    const std::string_view part = name.substr(begin, slash - begin);
    const bool repeats = !parts.empty() && part.size() > parts.back().size() &&
                         part.substr(0, parts.back().size()) == parts.back() &&
                         part[parts.back().size()] == '.';
    if (repeats) {
      parts.back() = part;
    } else {
      parts.push_back(part);
    }
  }
  std::string scope;
  for (std::string_view p : parts) scope += (scope.empty() ? "" : ".") + std::string(p);
  return scope;
}

}  // namespace

std::string_view metadata(const ImportedNode& node, std::string_view key) {
  if (node.proto == nullptr) return {};
  for (const onnx::StringStringEntryProto& p : node.proto->metadata_props()) {
    if (p.key() == key) return p.value();
  }
  return {};
}

std::string torch_scope(const ImportedNode& node) {
  const std::string_view text = metadata(node, "pkg.torch.onnx.name_scopes");
  if (text.empty()) return torchscript_scope(node.proto->name());
  const std::vector<std::string> scopes = parse_list(text);
  return scopes.size() >= 2 ? scopes[scopes.size() - 2] : "";
}

bool is_inside(std::string_view path, std::string_view module) {
  return module.empty() || path == module ||
         (path.size() > module.size() && path.starts_with(module) && path[module.size()] == '.');
}

}  // namespace trainrt
