// The tree of modules, and what its leaves are.
#include <algorithm>
#include <format>
#include <set>

#include "frontend/scope.h"

namespace trainrt {
namespace {

constexpr std::string_view kKerasCall = "StatefulPartitionedCall/";

/// "StatefulPartitionedCall/model/dense/MatMul" -> "model.dense".
std::string keras_scope(std::string_view name) {
  while (name.starts_with(kKerasCall)) name.remove_prefix(kKerasCall.size());
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos || slash == 0 || name[0] == '/') return "";
  std::string scope(name.substr(0, slash));
  std::replace(scope.begin(), scope.end(), '/', '.');
  return scope;
}

constexpr std::ptrdiff_t kDeepest = 100;  // parts of a path

/// The path, or the root where no framework has modules that deep.
std::string bounded(std::string path) {
  return std::count(path.begin(), path.end(), '.') < kDeepest ? path : "";
}

std::string scope_of(const ImportedModel& model, const ImportedNode& node) {
  if (node.proto == nullptr) return "";
  if (std::string path = torch_scope(node); !path.empty()) return path;
  if (!metadata(node, "pkg.torch.onnx.name_scopes").empty()) return "";
  if (std::string path = keras_scope(node.proto->name()); !path.empty()) return path;
  std::string owner;
  for (int32_t v : node.inputs) {
    const int32_t w = v < 0 ? -1 : model.values[static_cast<size_t>(v)].weight;
    if (w < 0) continue;
    const std::string& module = model.weights[static_cast<size_t>(w)].info.module;
    if (module.empty()) continue;
    if (!owner.empty() && owner != module) return "";
    owner = module;
  }
  return owner;
}

/// "enc.act_1" -> "enc.act" when that is a scope too and no weight belongs to "enc.act_1".
std::string first_call(const std::string& scope, const std::set<std::string>& scopes,
                       const std::set<std::string>& owners) {
  const size_t at = scope.rfind('_');
  if (at == std::string::npos || at + 1 == scope.size() || owners.contains(scope) ||
      !std::all_of(scope.begin() + static_cast<std::ptrdiff_t>(at) + 1, scope.end(),
                   [](char c) { return c >= '0' && c <= '9'; })) {
    return scope;
  }
  std::string base = scope.substr(0, at);
  return scopes.contains(base) ? base : scope;
}

std::string last_part(const std::string& dotted) {
  const size_t dot = dotted.rfind('.');
  return dot == std::string::npos ? dotted : dotted.substr(dot + 1);
}

/// What a leaf is, from the node that does its work.
struct Leaf {
  std::string type, extra;
};

std::string list_of(const ImportedNode& node, std::string_view attr) {
  const ImportedAttr* found = node.find(attr);
  if (found == nullptr) return "";
  std::string text;
  bool ones = true;
  for (int64_t v : found->proto->ints()) {
    text += (text.empty() ? "" : ", ") + std::to_string(v);
    ones = ones && v == 1;
  }
  return ones && attr != "kernel_shape" ? "" : "(" + text + ")";
}

class TreeFinder {
 public:
  explicit TreeFinder(ImportedModel& model) : m_(model) {}

  void run() {
    std::set<std::string> scopes, owners;
    for (ImportedWeight& w : m_.weights) {
      w.info.module = bounded(std::move(w.info.module));
      if (w.use != WeightUse::kConstant) owners.insert(w.info.module);
    }
    for_each_imported(m_.graph, [&](ImportedNode& node) {
      node.scope = bounded(scope_of(m_, node));
      scopes.insert(node.scope);
    });
    add("");
    for_each_imported(m_.graph, [&](ImportedNode& node) {
      node.module = first_call(node.scope, scopes, owners);
      if (!node.needed) return;
      add(node.module);
      note_types(node);
    });
    for (const ImportedWeight& w : m_.weights) {
      if (w.use == WeightUse::kParameter || w.use == WeightUse::kBuffer) add(w.info.module);
    }
    for_each_imported(m_.graph, [&](const ImportedNode& node) {
      if (node.needed) describe(node);
    });
    std::vector<ModuleInfo> ordered;
    place("", ordered);
    m_.modules = std::move(ordered);
  }

 private:
  void add(const std::string& path) {
    if (!infos_.try_emplace(path, ModuleInfo{path, "", ""}).second || path.empty()) return;
    const size_t dot = path.rfind('.');
    const std::string parent = dot == std::string::npos ? "" : path.substr(0, dot);
    add(parent);
    children_[parent].push_back(path);
  }

  void place(const std::string& path, std::vector<ModuleInfo>& ordered) {
    ordered.push_back(infos_.at(path));
    for (const std::string& child : children_[path]) place(child, ordered);
  }

  /// The dynamo exporter writes the class of every scope.
  void note_types(const ImportedNode& node) {
    const std::string_view classes = metadata(node, "pkg.torch.onnx.class_hierarchy");
    if (classes.empty()) return;
    const std::vector<std::string> types = parse_list(classes);
    const std::vector<std::string> scopes =
        parse_list(metadata(node, "pkg.torch.onnx.name_scopes"));
    for (size_t i = 0; i + 1 < std::min(types.size(), scopes.size()); ++i) {
      const auto found = infos_.find(scopes[i]);
      if (found != infos_.end()) found->second.type = last_part(types[i]);
    }
  }

  const Shape* weight_shape(const ImportedNode& node, size_t i) const {
    if (i >= node.inputs.size() || node.inputs[i] < 0) return nullptr;
    const int32_t w = m_.values[static_cast<size_t>(node.inputs[i])].weight;
    return w < 0 ? nullptr : &m_.weights[static_cast<size_t>(w)].info.shape;
  }

  Leaf leaf_of(const ImportedNode& node) const {
    const Shape* w = weight_shape(node, 1);
    const std::string& op = node.op;
    if ((op == "Gemm" || op == "MatMul") && w != nullptr && w->size() == 2) {
      const ImportedAttr* t = node.find("transB");
      const bool out_first = op == "Gemm" && t != nullptr && t->proto->i() != 0;
      return {"Linear",
              std::format("in={}, out={}", (*w)[out_first ? 1 : 0], (*w)[out_first ? 0 : 1])};
    }
    if ((op == "Conv" || op == "ConvTranspose") && w != nullptr && w->size() >= 3) {
      const ImportedAttr* g = node.find("group");
      const int64_t groups = g == nullptr ? 1 : g->proto->i();
      const bool transposed = op == "ConvTranspose";
      std::string kernel;
      for (size_t i = 2; i < w->size(); ++i) {
        kernel += (i > 2 ? ", " : "") + std::to_string((*w)[i]);
      }
      std::string extra =
          std::format("{}, {}, kernel=({})", transposed ? (*w)[0] : (*w)[1] * groups,
                      transposed ? (*w)[1] * groups : (*w)[0], kernel);
      if (const std::string s = list_of(node, "strides"); !s.empty()) extra += ", stride=" + s;
      if (groups != 1) extra += ", groups=" + std::to_string(groups);
      return {std::format("{}{}d", transposed ? "ConvTranspose" : "Conv", w->size() - 2), extra};
    }
    if (op == "BatchNormalization" && w != nullptr && w->size() == 1) {
      return {"BatchNorm", std::to_string((*w)[0])};
    }
    if (op == "LayerNormalization" && w != nullptr && !w->empty()) {
      return {"LayerNorm", std::to_string((*w)[0])};
    }
    if (op == "LSTM" || op == "GRU" || op == "RNN") {
      const ImportedAttr* h = node.find("hidden_size");
      if (w == nullptr || w->size() != 3 || h == nullptr) return {op, ""};
      return {op, std::format("in={}, hidden={}", (*w)[2], h->proto->i())};
    }
    const Shape* table = weight_shape(node, 0);
    if (op == "Gather" && table != nullptr && table->size() == 2) {
      return {"Embedding", std::format("{}, {}", (*table)[0], (*table)[1])};
    }
    if (op == "MaxPool" || op == "AveragePool")
      return {op, "kernel=" + list_of(node, "kernel_shape")};
    return {};
  }

  void describe(const ImportedNode& node) {
    ModuleInfo& info = infos_.at(node.module);
    if (node.module.empty() || children_.contains(node.module)) return;
    const bool named = !info.extra.empty() || described_.contains(node.module);
    const Leaf leaf = leaf_of(node);
    if (!leaf.type.empty() && !named) {
      described_.insert(node.module);
      if (info.type.empty()) info.type = leaf.type;
      info.extra = leaf.extra;
    } else if (info.type.empty() && node.op != "Constant" && node.op != "Cast" &&
               node.op != "Identity") {
      info.type = node.op;
    }
  }

  ImportedModel& m_;
  std::map<std::string, ModuleInfo> infos_;
  std::map<std::string, std::vector<std::string>> children_;
  std::set<std::string> described_;
};

}  // namespace

void find_modules(ImportedModel& model) { TreeFinder(model).run(); }

}  // namespace trainrt
