#include "frontend/parameters.h"

#include <algorithm>
#include <unordered_map>

#include "frontend/onnx_dtype.h"
#include "frontend/registered_ops.h"
#include "frontend/scope.h"

namespace trainrt {
namespace {

constexpr int kMaxPasses = 1000;

/// Marks values backwards from the float outputs. One pass sees each node once; loops, whose
/// results feed their next iteration, make further passes necessary.
class Reach {
 public:
  explicit Reach(const ImportedModel& model) : m_(model), marked_(model.values.size(), false) {}

  std::vector<bool> run() {
    for (size_t i = 0; i < m_.graph.outputs.size(); ++i) {
      if (m_.float_outputs[i]) mark(m_.graph.outputs[i]);
    }
    for (int pass = 0; pass < kMaxPasses; ++pass) {
      changed_ = false;
      walk(m_.graph);
      if (!changed_) break;
    }
    return std::move(marked_);
  }

 private:
  bool is_marked(int32_t value) const { return value >= 0 && marked_[static_cast<size_t>(value)]; }
  void mark(int32_t value) {
    if (value < 0 || marked_[static_cast<size_t>(value)]) return;
    marked_[static_cast<size_t>(value)] = true;
    changed_ = true;
  }
  static int32_t at(const std::vector<int32_t>& list, size_t i) {
    return i < list.size() ? list[i] : -1;
  }

  void walk(const ImportedGraph& graph) {
    for (size_t i = graph.nodes.size(); i-- > 0;) {
      const ImportedNode& n = graph.nodes[i];
      if (!n.needed) continue;
      if (n.domain.empty() && n.op == "If") {
        branches(n);
      } else if (n.domain.empty() && n.op == "Loop") {
        // Outputs: carried, scans. Body: iteration, condition, carried -> condition, carried,
        // scans.
        carried(n, 2, 2, 1, n.inputs.size() > 2 ? n.inputs.size() - 2 : 0);
      } else if (n.domain.empty() && n.op == "Scan") {
        const ImportedAttr* a = n.find("num_scan_inputs");
        const int64_t scans = a != nullptr ? a->proto->i() : 0;
        const auto inputs = static_cast<int64_t>(n.inputs.size());
        const int64_t first = n.opset < 9 ? 1 : 0;  // behind the sequences' lengths
        const int64_t states = std::clamp<int64_t>(inputs - scans - first, 0, inputs);
        carried(n, static_cast<size_t>(first), 0, 0, static_cast<size_t>(states));
      } else if (n.domain.empty() && n.op == "SequenceMap") {
        carried(n, 0, 0, 0, 0);
      } else if (std::any_of(n.outputs.begin(), n.outputs.end(),
                             [&](int32_t v) { return is_marked(v); })) {
        bodies(n);
        plain(n);
      }
    }
  }

  void plain(const ImportedNode& n) {
    if (n.op == "Cast" && n.domain.empty()) {
      const ImportedAttr* to = n.find("to");
      DType dtype;
      if (to != nullptr && dtype_from_onnx(to->proto->i(), &dtype) && !is_float(dtype)) return;
      if (to != nullptr && is_narrow_integer(to->proto->i())) return;
    }
    const bool all = n.row == nullptr || find_gradient_rule(n.domain, n.op);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (all || flows_through(n.row->differentiable, i)) mark(n.inputs[i]);
    }
  }

  /// Subgraphs that an operator calls on its way to any output.
  void bodies(const ImportedNode& n) {
    for (const ImportedAttr& a : n.attrs) {
      if (!a.graph) continue;
      for (int32_t v : a.graph->outputs) mark(v);
      walk(*a.graph);
    }
  }

  void branches(const ImportedNode& n) {
    for (const ImportedAttr& a : n.attrs) {
      if (!a.graph) continue;
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        if (is_marked(n.outputs[k])) mark(at(a.graph->outputs, k));
      }
      walk(*a.graph);
    }
  }

  /// A body whose inputs [body_in, body_in + count) continue node inputs [node_in, …) and its own
  /// outputs [body_out, …). Inputs behind those are slices of the node's, outputs are stacked.
  void carried(const ImportedNode& n, size_t node_in, size_t body_in, size_t body_out,
               size_t count) {
    const ImportedAttr* body = n.find("body");
    if (body == nullptr || !body->graph) return;
    const ImportedGraph& g = *body->graph;
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      if (is_marked(n.outputs[k])) mark(at(g.outputs, body_out + k));
    }
    walk(g);
    for (size_t k = 0; body_in + k < g.inputs.size(); ++k) {
      if (!is_marked(g.inputs[body_in + k])) continue;
      mark(at(n.inputs, node_in + k));
      if (k < count) mark(at(g.outputs, body_out + k));
    }
  }

  const ImportedModel& m_;
  std::vector<bool> marked_;
  bool changed_ = false;
};

std::string describe(const ImportedNode& n) { return n.op + " '" + n.name + "'"; }

/// Marks running statistics as buffers. `shared`: initializers that only stand behind them.
void find_buffers(ImportedModel& m, std::vector<bool>& shared) {
  std::unordered_map<int32_t, ImportedNode*> identities;
  std::vector<ImportedNode*> norms;
  for_each_imported(m.graph, [&](ImportedNode& n) {
    if (!n.domain.empty()) return;
    if (n.op == "Identity" && n.inputs.size() == 1 && n.outputs.size() == 1) {
      identities[n.outputs[0]] = &n;
    }
    if (n.op == "BatchNormalization") norms.push_back(&n);
  });
  if (norms.empty()) return;
  std::unordered_map<const onnx::NodeProto*, int32_t> order;
  int32_t count = 0;
  for_each_node(m.proto, [&](onnx::NodeProto* node, bool in_function) {
    if (!in_function && node->op_type() == "Identity") order[node] = count;
    ++count;
  });

  for (ImportedNode* norm : norms) {
    for (size_t i = 3; i < std::min<size_t>(norm->inputs.size(), 5); ++i) {
      const int32_t value = norm->inputs[i];
      if (value < 0) continue;
      int32_t source = value;
      while (m.values[static_cast<size_t>(source)].weight < 0 && identities.count(source) > 0 &&
             identities[source]->inputs[0] >= 0) {
        source = identities[source]->inputs[0];
      }
      const int32_t w = m.values[static_cast<size_t>(source)].weight;
      if (w < 0 || !m.weights[static_cast<size_t>(w)].is_float) continue;
      const std::string reason =
          std::string("running ") + (i == 3 ? "mean" : "variance") + " of " + describe(*norm);
      ImportedNode* identity = source == value ? nullptr : identities[value];
      const auto place = identity != nullptr ? order.find(identity->proto) : order.end();
      if (place == order.end()) {
        ImportedWeight& weight = m.weights[static_cast<size_t>(w)];
        weight.use = WeightUse::kBuffer;
        weight.info.reason = reason;
        continue;
      }
      // The exporter found two buffers equal and stored one: here each is its own again.
      shared[static_cast<size_t>(w)] = true;
      ImportedWeight own = m.weights[static_cast<size_t>(w)];
      own.info.name = own.info.original = m.values[static_cast<size_t>(value)].name;
      own.info.reason = reason;
      own.slot = -1;
      own.use = WeightUse::kBuffer;
      own.identity_node = place->second;
      m.values[static_cast<size_t>(value)].weight = static_cast<int32_t>(m.weights.size());
      identity->needed = false;
      m.weights.push_back(std::move(own));
      shared.push_back(false);
    }
  }
}

/// Why the file's own account of the module makes a weight a constant; "" when it does not.
std::string constant_in_module(const TorchMetadata& torch, const ImportedWeight& w) {
  if (!torch.has_signature()) return "";
  const std::string& name = w.info.name;
  if (torch.is_buffer(name)) return "a buffer of the exported module, as the file says";
  if (torch.folded_from.contains(name) && torch.parameters_in(name).empty()) {
    return "the exporter computed it from none of the module's parameters, as the file says";
  }
  return "";
}

}  // namespace

std::vector<bool> differentiable_values(const ImportedModel& model) { return Reach(model).run(); }

std::vector<std::vector<WeightReader>> weight_readers(const ImportedModel& m) {
  std::vector<std::vector<WeightReader>> readers(m.weights.size());
  for_each_imported(m.graph, [&](const ImportedNode& n) {
    if (!n.needed) return;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] < 0) continue;
      const int32_t w = m.values[static_cast<size_t>(n.inputs[i])].weight;
      if (w >= 0) readers[static_cast<size_t>(w)].push_back({&n, i});
    }
  });
  return readers;
}

void find_parameters(ImportedModel& m) {
  std::vector<bool> shared(m.weights.size(), false);
  find_buffers(m, shared);
  const std::vector<bool> reach = differentiable_values(m);
  std::vector<bool> trained(m.weights.size(), false);
  for (size_t v = 0; v < m.values.size(); ++v) {
    if (m.values[v].weight >= 0 && reach[v]) {
      trained[static_cast<size_t>(m.values[v].weight)] = true;
    }
  }
  const auto readers = weight_readers(m);
  for (size_t i = 0; i < m.weights.size(); ++i) {
    ImportedWeight& w = m.weights[i];
    if (!w.is_float || w.use == WeightUse::kBuffer) continue;
    const int64_t size = w.stored.value.size();
    const char* kind = w.initializer ? "initializer" : "Constant node";
    std::string& reason = w.info.reason;
    if (shared[i]) {
      reason = "running statistics are kept in it";
    } else if (size == 0) {
      reason = "it has no elements";
    } else if (w.initializer && w.info.shape.empty()) {
      reason = "an initializer of rank 0 is a constant";
    } else if (!w.initializer && size == 1) {
      reason = "a Constant node with one element is a constant";
    } else if (w.slot < 0) {
      reason = "a constant that a function's attribute gives";
    } else if (is_constant_name(w.info.name) || (size == 1 && is_made_up_name(w.info.name))) {
      reason = "a constant written in the code of the model, as its name tells";
    } else if (std::string why = constant_in_module(m.torch, w); !why.empty()) {
      reason = std::move(why);
    } else if (!trained[i]) {
      reason = readers[i].empty() ? "no node that an output needs reads it"
                                  : "no differentiable path leads from it to a float output";
    } else {
      w.use = WeightUse::kParameter;
      reason = "float " + std::string(kind) + " on a differentiable path to an output";
      if (!readers[i].empty()) reason += ", read by " + describe(*readers[i][0].node);
    }
  }
  name_weights(m);
  find_modules(m);
}

}  // namespace trainrt
