#include "frontend/torch_metadata.h"

#include <algorithm>

namespace trainrt {
namespace {

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Lines such as "b_mask: BUFFER target='layers.0.mask' persistent=False".
void read_signature(std::string_view text, TorchMetadata* out) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t target = line.find(" target=");
    if (target == std::string_view::npos) continue;
    const std::vector<std::string> name = parse_list(line.substr(target));
    if (name.empty()) continue;
    if (line.find(": PARAMETER ") < target) {
      out->parameters.push_back(name[0]);
    } else if (line.find(": BUFFER ") < target) {
      const bool persistent = line.find("persistent=False", target) == std::string_view::npos;
      (persistent ? out->buffers : out->other_buffers).push_back(name[0]);
    }
  }
}

}  // namespace

bool TorchMetadata::is_parameter(std::string_view name) const { return contains(parameters, name); }

bool TorchMetadata::is_buffer(std::string_view name) const {
  return contains(buffers, name) || contains(other_buffers, name);
}

bool TorchMetadata::in_state(std::string_view name) const {
  return contains(parameters, name) || contains(buffers, name);
}

std::vector<std::string> TorchMetadata::parameters_in(const std::string& weight) const {
  std::vector<std::string> found;
  const auto it = folded_from.find(weight);
  if (it == folded_from.end()) return found;
  std::copy_if(it->second.begin(), it->second.end(), std::back_inserter(found),
               [&](const std::string& name) { return is_parameter(name); });
  return found;
}

TorchMetadata read_torch_metadata(const onnx::ModelProto& model) {
  TorchMetadata out;
  out.from_torch = model.producer_name() == "pytorch";
  if (!out.from_torch) return out;
  for (const auto& p : model.graph().metadata_props()) {
    if (p.key().ends_with("graph_signature")) read_signature(p.value(), &out);
  }
  if (!out.has_signature()) return out;
  for (const onnx::ValueInfoProto& value : model.graph().value_info()) {
    for (const auto& p : value.metadata_props()) {
      if (p.key().ends_with("optimizer.folded_from")) {
        out.folded_from[value.name()] = parse_list(p.value());
      } else if (p.key().ends_with("graph_signature.InputSpec.kind")) {
        out.unchanged.insert(value.name());
      }
    }
  }
  return out;
}

std::vector<std::string> parse_list(std::string_view text) {
  std::vector<std::string> items;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\'' && text[i] != '"') continue;
    const size_t end = text.find(text[i], i + 1);
    if (end == std::string_view::npos) break;
    items.emplace_back(text.substr(i + 1, end - i - 1));
    i = end;
  }
  return items;
}

}  // namespace trainrt
