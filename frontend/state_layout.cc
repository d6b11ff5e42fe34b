#include "frontend/state_layout.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

#include "frontend/imported.h"
#include "frontend/parameters.h"
#include "frontend/scope.h"

namespace trainrt {
namespace {

std::string_view module_of(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : key.substr(0, dot);
}

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

std::string join(std::string_view module, std::string_view leaf) {
  return module.empty() ? std::string(leaf) : std::string(module) + "." + std::string(leaf);
}

/// Of the same module, of one inside the other, or of the name that TorchScript gives a module's
/// second call ("fc_1").
bool is_related(std::string_view scope, std::string_view module) {
  const auto inside = [](std::string_view a, std::string_view b) {
    return b.empty() || (a.starts_with(b) && (a.size() == b.size() || a[b.size()] == '.'));
  };
  if (inside(scope, module) || inside(module, scope)) return true;
  if (!scope.starts_with(module)) return false;
  const std::string_view rest = scope.substr(module.size());
  return rest[0] == '_' && rest.size() > 1 && std::all_of(rest.begin() + 1, rest.end(), [](char c) {
           return std::isdigit(static_cast<unsigned char>(c)) != 0;
         });
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "'" : ", '") + n + "'";
  return text;
}

/// torch's order of gates in ONNX's: LSTM i f g o in i o f c, GRU r z n in z r h.
std::vector<int64_t> gate_blocks(std::string_view op) {
  if (op == "LSTM") return {0, 2, 3, 1};
  if (op == "GRU") return {1, 0, 2};
  return {0};
}

class LayoutMaker {
 public:
  explicit LayoutMaker(ImportedModel& model)
      : m_(model), torch_(model.torch), keys_(model.weights.size()) {
    for_each_imported(m_.graph, [&](const ImportedNode& n) {
      if (!n.needed) return;
      for (int32_t v : n.inputs) {
        if (v >= 0) readers_[v].push_back(&n);
      }
    });
    values_.resize(m_.weights.size());
    for (size_t v = 0; v < m_.values.size(); ++v) {
      if (const int32_t w = m_.values[v].weight; w >= 0) {
        values_[static_cast<size_t>(w)].push_back(static_cast<int32_t>(v));
      }
    }
  }

  StateLayout run() {
    recurrent_layers();
    for (size_t i = 0; i < m_.weights.size(); ++i) primary_key(i);
    for (const auto& key : keys_) held_.insert(key);
    for (size_t i = 0; i < m_.weights.size(); ++i) {
      if (!keys_[i].empty()) names_of(i);
    }
    constants();
    twins();
    for (const auto& names : {torch_.parameters, torch_.buffers}) {
      for (const std::string& name : names) {
        if (!held_.contains(name) && leaf_of(name) != "num_batches_tracked") {
          out_.lost.push_back(name);
          if (torch_.is_parameter(name)) out_.lost_parameters.insert(name);
        }
      }
    }
    std::map<std::string, size_t> order;
    for (size_t i = 0; i < m_.weights.size(); ++i) order[weight(i).info.name] = i;
    std::stable_sort(out_.entries.begin(), out_.entries.end(),
                     [&](const StateEntry& a, const StateEntry& b) {
                       return order[a.weight] < order[b.weight];
                     });
    return std::move(out_);
  }

 private:
  bool is_state(const ImportedWeight& w) const {
    return w.use != WeightUse::kConstant && w.stored.value.defined();
  }
  const ImportedWeight& weight(size_t i) const { return m_.weights[i]; }

  void refuse(size_t i, const std::string& reason) {
    if (weight(i).use != WeightUse::kTied) out_.refused[weight(i).info.name] = reason;
  }

  /// The one key of a weight that holds a whole tensor; "" for others.
  void primary_key(size_t i) {
    const ImportedWeight& w = weight(i);
    if (!is_state(w) || packed_.contains(i)) return;
    const std::string& name = w.info.name;
    const std::string& key = w.origin ? w.origin->name : name;
    if (!torch_.from_torch) {
      keys_[i] = key;
      return;
    }
    if (torch_.folded_from.contains(name) && key == name) {
      refuse(i, "the exporter computed it from " + quoted(torch_.parameters_in(name)));
    } else if (torch_.has_signature() && !torch_.in_state(key)) {
      refuse(i, "the exporter made it; the module has no such parameter");
    } else if (torch_.in_state(name) && !torch_.unchanged.empty() &&
               !torch_.unchanged.contains(name)) {
      refuse(i, "the exporter folded other weights into it, as of a BatchNormalization");
    } else if (is_made_up_name(name) && key == name) {
      refuse(i, "the exporter computed it; from which weights cannot be told");
    } else if (is_made_up_name(name) && !torch_.has_signature() && is_filter(i)) {
      // The exporter has no other reason to compute a convolution's weights.
      refuse(i, "the exporter folded a BatchNormalization into it");
    } else {
      keys_[i] = key;
    }
  }

  bool is_filter(size_t i) const {
    for (int32_t v : values_[i]) {
      const auto it = readers_.find(v);
      if (it == readers_.end()) continue;
      for (const ImportedNode* n : it->second) {
        if (n->op == "Conv" || n->op == "ConvTranspose") return true;
      }
    }
    return false;
  }

  /// The entries of weight i: its key and the other names of the same tensor.
  void names_of(size_t i) {
    ImportedWeight& w = m_.weights[i];
    std::vector<std::string> names = {keys_[i]};
    std::set<std::string> aliases;
    if (torch_.from_torch) {
      for (int32_t v : values_[i]) find_aliases(v, keys_[i], aliases);
    }
    // A tied weight has one of its names in the file, which may be that of a weight computed from
    // it.
    const auto same = std::count(keys_.begin(), keys_.end(), keys_[i]);
    if (same > 1 && keys_[i] == w.info.name && !aliases.empty()) {
      names.clear();
      keys_[i] = *aliases.begin();
      w.info.module = std::string(module_of(keys_[i]));
    }
    for (const std::string& alias : aliases) {
      names.push_back(alias);
      held_.insert(alias);
    }
    StateEntry entry;
    entry.shape = w.origin ? w.origin->shape : w.info.shape;
    entry.transposed = w.origin && w.origin->transposed;
    w.info.original = keys_[i];
    w.info.transposed = entry.transposed;
    entry.weight = w.info.name;
    if (w.use == WeightUse::kTied) {
      entry.weight = weight(static_cast<size_t>(w.tied_to)).info.name;
      entry.transposed = entry.transposed != w.tied_transposed;
    }
    for (const std::string& name : names) {
      entry.key = name;
      out_.entries.push_back(entry);
    }
  }

  /// Names of `key`'s tensor as other modules call it that read its value.
  void find_aliases(int32_t value, const std::string& key, std::set<std::string>& aliases) const {
    const auto it = readers_.find(value);
    if (it == readers_.end()) return;
    const std::string_view leaf = leaf_of(key);
    for (const ImportedNode* n : it->second) {
      if (!n->domain.empty()) continue;
      if (n->op == "Identity") {
        // Equal weights that the exporter stored once: the Identity has the other one's name.
        const std::string& name = n->proto->output(0);
        if (!is_made_up_name(name)) add_alias(name, aliases);
        find_aliases(n->outputs[0], key, aliases);
        continue;
      }
      const std::string scope = torch_scope(*n);
      if (torch_.has_signature()) {
        if (torch_.in_state(join(scope, leaf))) add_alias(join(scope, leaf), aliases);
        continue;
      }
      const bool tied = (n->op == "Gather" && n->inputs[0] == value) || n->op == "Transpose" ||
                        ((n->op == "MatMul" || n->op == "Gemm") && n->inputs[0] != value);
      if (tied && leaf == "weight" && !scope.empty() && !is_related(scope, module_of(key))) {
        add_alias(join(scope, leaf), aliases);
      }
    }
  }

  void add_alias(const std::string& name, std::set<std::string>& aliases) const {
    if (!held_.contains(name)) aliases.insert(name);
  }

  /// Weights of LSTM, GRU and RNN nodes: the exporters pack those of a layer into three tensors.
  void recurrent_layers() {
    if (!torch_.from_torch) return;
    std::map<std::pair<std::string, std::string>, std::vector<const ImportedNode*>> layers;
    for_each_imported(m_.graph, [&](const ImportedNode& n) {
      if (!n.needed || !n.domain.empty() || n.inputs.size() < 3) return;
      if (n.op == "LSTM" || n.op == "GRU" || n.op == "RNN") {
        layers[{torch_scope(n), n.op}].push_back(&n);
      }
    });
    for (const auto& [where, nodes] : layers) {
      std::vector<int32_t> seen;  // the input weights of layers 0, 1, …
      for (const ImportedNode* n : nodes) {
        const int32_t w = packed(*n, 1), r = packed(*n, 2);
        if (w < 0 || r < 0 || std::find(seen.begin(), seen.end(), w) != seen.end()) continue;
        const bool again = std::any_of(seen.begin(), seen.end(), [&](int32_t s) {
          return same_bytes(at(s).stored.value, at(w).stored.value);
        });
        if (again) continue;
        if (add_layer(where.first, *n, w, r, packed(*n, 3), seen.size())) seen.push_back(w);
      }
    }
  }

  const ImportedWeight& at(int32_t w) const { return m_.weights[static_cast<size_t>(w)]; }

  /// The weight that input i of a node is, when the exporter made it; else -1.
  int32_t packed(const ImportedNode& n, size_t i) const {
    if (i >= n.inputs.size() || n.inputs[i] < 0) return -1;
    const int32_t w = m_.values[static_cast<size_t>(n.inputs[i])].weight;
    if (w < 0 || at(w).use != WeightUse::kParameter) return -1;
    const std::string& name = at(w).info.name;
    return is_made_up_name(name) || torch_.folded_from.contains(name) ? w : -1;
  }

  static bool is_torch_form(const ImportedNode& n, int64_t directions) {
    const ImportedAttr* direction = n.find("direction");
    const std::string wanted = directions == 2 ? "bidirectional" : "forward";
    if ((direction == nullptr ? "forward" : direction->proto->s()) != wanted) return false;
    const ImportedAttr* reset = n.find("linear_before_reset");
    return n.op != "GRU" || (reset != nullptr && reset->proto->i() != 0);
  }

  bool add_layer(const std::string& scope, const ImportedNode& n, int32_t w, int32_t r, int32_t b,
                 size_t layer) {
    const Shape& ws = at(w).info.shape;
    const Shape& rs = at(r).info.shape;
    const auto gates = gate_blocks(n.op);
    if (ws.size() != 3 || rs.size() != 3 || ws[0] > 2 || ws[0] != rs[0]) return false;
    const int64_t directions = ws[0], rows = rs[1], hidden = rs[2], width = ws[2];
    if (ws[1] != rows || rows != hidden * static_cast<int64_t>(gates.size())) return false;
    if (!is_torch_form(n, directions)) return false;
    if (layer > 0 && width != directions * hidden) return false;
    if (b >= 0 && at(b).info.shape != Shape{directions, 2 * rows}) return false;

    std::vector<StateEntry> found;
    const auto add = [&](const char* what, int64_t d, int32_t from, const Shape& shape,
                         int64_t offset) {
      const std::string leaf = what + ("_l" + std::to_string(layer)) + (d == 1 ? "_reverse" : "");
      found.push_back({join(scope, leaf), shape, at(from).info.name, false, offset, gates});
    };
    for (int64_t d = 0; d < directions; ++d) {
      add("weight_ih", d, w, {rows, width}, d * rows * width);
      add("weight_hh", d, r, {rows, hidden}, d * rows * hidden);
      if (b < 0) continue;
      add("bias_ih", d, b, {rows}, 2 * d * rows);
      add("bias_hh", d, b, {rows}, (2 * d + 1) * rows);
    }
    // The file's own account has to agree.
    for (int32_t weight : {w, r, b}) {
      if (weight < 0 || !torch_.has_signature()) continue;
      const std::string& name = at(weight).info.name;
      const std::vector<std::string> from = torch_.parameters_in(name);
      std::set<std::string> keys;
      for (const StateEntry& e : found) {
        if (e.weight == name) keys.insert(e.key);
      }
      if (keys != std::set<std::string>(from.begin(), from.end())) return false;
    }
    for (int32_t weight : {w, r, b}) {
      if (weight < 0) continue;
      packed_.insert(static_cast<size_t>(weight));
      m_.weights[static_cast<size_t>(weight)].info.module = scope;
    }
    for (StateEntry& e : found) {
      held_.insert(e.key);
      out_.entries.push_back(std::move(e));
    }
    return true;
  }

  void constants() {
    for (const ImportedWeight& w : m_.weights) {
      if (w.use != WeightUse::kConstant || !w.stored.value.defined()) continue;
      const bool in_state = w.initializer && torch_.in_state(w.info.name);
      if (in_state) held_.insert(w.info.name);
      out_.constants.push_back({w.info.name, w.stored.value, in_state});
    }
  }

  void twins() {
    for (const ImportedWeight& w : m_.weights) {
      if (w.use != WeightUse::kParameter || w.tied_to < 0) continue;
      out_.twins.push_back({at(w.tied_to).info.name, w.info.name, w.tied_transposed});
    }
  }

  ImportedModel& m_;
  const TorchMetadata& torch_;
  std::map<int32_t, std::vector<const ImportedNode*>> readers_;  // by value
  std::vector<std::vector<int32_t>> values_;                     // by weight
  std::set<size_t> packed_;
  std::vector<std::string> keys_;  // by weight
  std::set<std::string> held_;
  StateLayout out_;
};

}  // namespace

std::vector<const StateEntry*> StateLayout::find(const std::string& key) const {
  std::vector<const StateEntry*> found;
  for (const StateEntry& e : entries) {
    if (e.key == key) found.push_back(&e);
  }
  return found;
}

std::vector<const StateEntry*> StateLayout::in_weight(const std::string& weight) const {
  std::vector<const StateEntry*> found;
  for (const StateEntry& e : entries) {
    if (e.weight == weight) found.push_back(&e);
  }
  return found;
}

bool StateLayout::knows(const std::string& key) const {
  return !find(key).empty() || std::find(lost.begin(), lost.end(), key) != lost.end();
}

StateLayout make_state_layout(ImportedModel& model) { return LayoutMaker(model).run(); }

}  // namespace trainrt
