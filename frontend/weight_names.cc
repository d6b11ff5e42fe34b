// Original names of weights: what the framework called them before the exporter did.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "frontend/parameters.h"
#include "frontend/scope.h"

namespace trainrt {
namespace {

bool is_digits(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Without the "#2" of a recurring name.
std::string_view without_suffix(std::string_view name) {
  const size_t hash = name.rfind('#');
  return hash != std::string_view::npos && is_digits(name.substr(hash + 1)) ? name.substr(0, hash)
                                                                            : name;
}

/// The part before `_output_N`, if the name ends so.
std::optional<std::string_view> before_output(std::string_view name) {
  const size_t at = name.rfind("_output_");
  if (at == std::string_view::npos || !is_digits(name.substr(at + 8))) return std::nullopt;
  return name.substr(0, at);
}

struct Guess {
  std::string name;
  bool transposed = false;
  Shape shape = {};  // in the framework
  bool operator==(const Guess&) const = default;
};

/// Without dims of 1; [1] when there are no others.
Shape squeezed(const Shape& shape) {
  Shape result;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(result),
               [](int64_t d) { return d != 1; });
  return result.empty() && !shape.empty() ? Shape{1} : result;
}

/// The leading part of a name that torch numbers: "embedding" of "embedding_3".
std::string_view without_number(std::string_view name) {
  const size_t at = name.rfind('_');
  return at != std::string_view::npos && is_digits(name.substr(at + 1)) ? name.substr(0, at) : name;
}

/// What the module that contains `node` calls its input `i`; "" when that cannot be told.
Guess role(const ImportedNode& n, size_t i, const Shape& shape) {
  const std::string& op = n.op;
  if (op == "MatMul" && i == 1 && shape.size() == 2) return {"weight", true};
  if (op == "Gemm" && i == 1) {
    const ImportedAttr* t = n.find("transB");
    return {"weight", t == nullptr || t->proto->i() == 0};
  }
  if (op == "Add" && shape.size() == 1) return {"bias"};
  if (op == "Gather" && i == 0 && shape.size() == 2) return {"weight"};
  if (op == "PRelu" && i == 1) return {"weight"};
  const bool two = op == "Gemm" || op == "Conv" || op == "ConvTranspose" ||
                   op == "LayerNormalization" || op == "InstanceNormalization" ||
                   op == "GroupNormalization" || op == "BatchNormalization";
  if (two && i == 1) return {"weight"};
  if (two && i == 2) return {"bias"};
  if (op == "BatchNormalization" && i == 3) return {"running_mean"};
  if (op == "BatchNormalization" && i == 4) return {"running_var"};
  return {};
}

/// What a Keras layer calls the variable that an operation of it reads.
struct KerasRole {
  std::string_view operation;  // the last parts of the name, without the layer
  std::string_view variable;
};

constexpr KerasRole kKerasRoles[] = {
    {"MatMul/ReadVariableOp", "kernel"},
    {"MatMul_1/ReadVariableOp", "recurrent_kernel"},
    {"BiasAdd/ReadVariableOp", "bias"},
    {"Conv1D/ExpandDims_1/ReadVariableOp", "kernel"},
    {"Conv2D/ReadVariableOp", "kernel"},
    {"Conv3D/ReadVariableOp", "kernel"},
    {"conv2d_transpose/ReadVariableOp", "kernel"},
    {"depthwise/ReadVariableOp", "depthwise_kernel"},
    {"separable_conv2d/ReadVariableOp", "depthwise_kernel"},
    {"separable_conv2d/ReadVariableOp_1", "pointwise_kernel"},
    {"FusedBatchNormV3/ReadVariableOp", "moving_mean"},
    {"FusedBatchNormV3/ReadVariableOp_1", "moving_variance"},
    {"batchnorm/mul/ReadVariableOp", "gamma"},
    {"batchnorm/ReadVariableOp", "beta"},
    {"embedding_lookup", "embeddings"},
};

/// "StatefulPartitionedCall/model/dense/MatMul/ReadVariableOp:0" -> "model/dense/kernel": tf2onnx
/// names a weight after the operation that read it. The name itself where nothing is known of it.
std::string keras_name(const std::string& full) {
  std::string_view name = without_suffix(full);
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos || !is_digits(name.substr(colon + 1))) return full;
  name = name.substr(0, colon);
  constexpr std::string_view kCall = "StatefulPartitionedCall/";
  while (name.starts_with(kCall)) name.remove_prefix(kCall.size());
  for (const KerasRole& role : kKerasRoles) {
    if (name.size() <= role.operation.size() + 1 || !name.ends_with(role.operation)) continue;
    const std::string_view layer = name.substr(0, name.size() - role.operation.size());
    if (layer.back() == '/') return std::string(layer) + std::string(role.variable);
  }
  return std::string(name);
}

class Namer {
 public:
  explicit Namer(ImportedModel& model) : m_(model), readers_(weight_readers(model)) {
    for_each_imported(m_.graph, [&](const ImportedNode& n) {
      if (!n.needed) return;
      for (int32_t v : n.inputs) {
        if (v >= 0) value_readers_[v].push_back(&n);
      }
      for (int32_t v : n.outputs) {
        if (v >= 0) makers_[v] = &n;
      }
    });
  }

  void run() {
    std::map<std::string, int> taken;
    std::vector<Guess> guesses(m_.weights.size());
    for (size_t i = 0; i < m_.weights.size(); ++i) {
      const ImportedWeight& w = m_.weights[i];
      const bool folded = m_.torch.folded_from.contains(w.info.name);
      if (w.is_float && folded) guesses[i] = folded_guess(i);
      const bool made_up = is_made_up_name(w.info.name) && !is_constant_name(w.info.name);
      if (w.is_float && !folded && made_up) guesses[i] = guess(i);
      if (w.is_float && guesses[i].name.empty()) guesses[i].name = keras_name(w.info.name);
      ++taken[guesses[i].name];
    }
    for (size_t i = 0; i < m_.weights.size(); ++i) {
      WeightInfo& info = m_.weights[i].info;
      const Guess& g = guesses[i];
      // What a file says of itself stands even where two weights come from the same one.
      const bool said = m_.torch.folded_from.contains(info.name) && !g.name.empty();
      if (m_.weights[i].is_float && (taken[g.name] == 1 || said)) {
        m_.weights[i].origin = {g.name, g.transposed, g.shape.empty() ? info.shape : g.shape};
      }
      if (taken[guesses[i].name] == 1) {
        info.original = guesses[i].name;
        info.transposed = guesses[i].transposed;
      }
      info.module = module_of(info.original, i);
    }
  }

 private:
  /// From what the file says a weight was computed from. Known ways: a matrix turned round, a
  /// vector with dims of 1, the rows of a table from the first one on.
  Guess folded_guess(size_t weight) const {
    const WeightInfo& info = m_.weights[weight].info;
    const std::vector<std::string> from = m_.torch.parameters_in(info.name);
    if (from.size() != 1) return {};
    std::set<std::string_view>
        others;  // but for numbered values, which have no names in the module
    const std::vector<std::string>& all = m_.torch.folded_from.at(info.name);
    for (const std::string& name : all) {
      if (name != from[0] && !name.starts_with("val_")) others.insert(without_number(name));
    }
    const auto turned = [&](const WeightReader& r) {
      const Guess g = role(*r.node, r.input, info.shape);
      return r.node->domain.empty() && g.transposed;
    };
    const auto spread = [](const WeightReader& r) {
      return r.node->op == "Mul" || r.node->op == "Add" || r.node->op == "PRelu";
    };
    const auto& readers = readers_[weight];
    const Shape& shape = info.shape;
    if (readers.empty()) return {};
    if (all.size() == 1 && shape.size() == 2 &&
        std::all_of(readers.begin(), readers.end(), turned)) {
      return {from[0], true, {shape[1], shape[0]}};
    }
    const Shape dims = squeezed(shape);
    if (others.empty() && dims.size() == 1 && std::all_of(readers.begin(), readers.end(), spread)) {
      return {from[0], false, dims};
    }
    if (without_number(info.name) == "embedding" &&
        others == std::set<std::string_view>{"arange"} &&
        (shape.size() == 2 || (shape.size() == 3 && shape[0] == 1))) {
      return {from[0], false, {shape[shape.size() - 2], shape.back()}};
    }
    return {};
  }

  /// The scale or the shift that a GroupNorm applies after its InstanceNormalization.
  Guess group_norm_role(const ImportedNode& n, size_t i, const Shape& shape) const {
    if ((n.op != "Mul" && n.op != "Add") || n.inputs.size() != 2 || shape.size() < 2) return {};
    const Shape dims = squeezed(shape);
    if (dims.size() != 1 || dims[0] != shape[0]) return {};
    const ImportedNode* x = maker(n.inputs[1 - i]);
    if (n.op == "Add") {
      if (x == nullptr || x->op != "Mul" || x->inputs.empty()) return {};
      x = maker(x->inputs[0]);
    }
    if (x == nullptr || x->op != "Reshape" || x->inputs.empty()) return {};
    const ImportedNode* norm = maker(x->inputs[0]);
    if (norm == nullptr || norm->op != "InstanceNormalization") return {};
    if (torch_scope(*norm) != torch_scope(n)) return {};
    return {n.op == "Mul" ? "weight" : "bias", false, dims};
  }

  const ImportedNode* maker(int32_t value) const {
    const auto it = makers_.find(value);
    return it == makers_.end() ? nullptr : it->second;
  }

  Guess guess(size_t weight) const {
    std::optional<Guess> found;
    for (const WeightReader& r : readers_[weight]) {
      if (!r.node->domain.empty()) return {};
      // Made where a module is called again; its readers have a scope that is no module's.
      if (r.node->op == "Identity") continue;
      const Shape& shape = m_.weights[weight].info.shape;
      Guess g = role(*r.node, r.input, shape);
      if (g.transposed) g.shape = {shape[1], shape[0]};
      if (g.name.empty()) g = group_norm_role(*r.node, r.input, shape);
      if (g.name.empty()) return {};
      const std::string scope = torch_scope(*r.node);
      const std::string beside = g.name == "weight" ? beside_bias(*r.node, scope.empty()) : "";
      if (beside.empty() && scope.empty()) return {};
      if (scope.empty()) {
        g.name = beside;
      } else {
        g.name = scope + "." + (beside.empty() ? g.name : beside.substr(beside.rfind('.') + 1));
      }
      if (found && !(*found == g)) return {};
      found = g;
    }
    return found.value_or(Guess{});
  }

  /// "fc.weight" when the product that `node` computes is only read by an Add of "fc.bias", and
  /// "in_proj_weight" for "in_proj_bias". Equal biases of several layers may be stored once, under
  /// the first one's name: `own` asks for a bias that nobody else reads.
  std::string beside_bias(const ImportedNode& node, bool own) const {
    if (node.outputs.size() != 1) return "";
    const auto it = value_readers_.find(node.outputs[0]);
    if (it == value_readers_.end() || it->second.size() != 1) return "";
    const ImportedNode& add = *it->second[0];
    if (add.op != "Add" || add.inputs.size() != 2) return "";
    for (int32_t v : add.inputs) {
      if (v < 0) continue;
      const int32_t w = m_.values[static_cast<size_t>(v)].weight;
      if (w < 0 || (own && readers_[static_cast<size_t>(w)].size() != 1)) continue;
      const std::string& bias = m_.weights[static_cast<size_t>(w)].info.name;
      if (bias.size() > 5 && (bias.ends_with(".bias") || bias.ends_with("_bias"))) {
        return bias.substr(0, bias.size() - 4) + "weight";
      }
    }
    return "";
  }

  std::string module_of(const std::string& name, size_t weight) const {
    if (is_made_up_name(name)) {
      return readers_[weight].size() == 1 ? torch_scope(*readers_[weight][0].node) : "";
    }
    const size_t dot = name.find_last_of("./");
    if (dot == std::string::npos || dot == 0) return "";
    std::string module = name.substr(name[0] == '/' ? 1 : 0, dot - (name[0] == '/' ? 1 : 0));
    std::replace(module.begin(), module.end(), '/', '.');
    return module;
  }

  ImportedModel& m_;
  std::vector<std::vector<WeightReader>> readers_;
  std::map<int32_t, std::vector<const ImportedNode*>> value_readers_;
  std::map<int32_t, const ImportedNode*> makers_;
};

}  // namespace

bool is_constant_name(const std::string& full) {
  const auto stem = before_output(without_suffix(full));
  if (!stem) return false;
  const size_t slash = stem->rfind('/');
  std::string_view last = slash == std::string_view::npos ? *stem : stem->substr(slash + 1);
  if (last == "Constant") return true;
  return last.starts_with("Constant_") && is_digits(last.substr(9));
}

bool is_made_up_name(const std::string& full) {
  const std::string_view name = without_suffix(full);
  for (std::string_view prefix : {"val_", "const_fold_opt__", "helper.constant."}) {
    if (name.starts_with(prefix) && is_digits(name.substr(prefix.size()))) return true;
  }
  return is_digits(name) || name.starts_with("onnx::") || before_output(name).has_value();
}

void name_weights(ImportedModel& model) { Namer(model).run(); }

}  // namespace trainrt
