#include "frontend/import.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "frontend/functions.h"
#include "frontend/onnx_dtype.h"
#include "frontend/parameters.h"
#include "frontend/registered_ops.h"

namespace trainrt {
namespace {

constexpr size_t kMaxProblems = 200;
constexpr int64_t kCallCost = 8;  // in nodes: a function may consist of calls alone
constexpr size_t kMaxNameBytes = size_t{256} << 20;

/// Ends an import that grows beyond all bounds.
struct Stop {};

std::string label_of(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& name : node.output()) {
    if (!name.empty()) return name;
  }
  return node.op_type();
}

/// Fills dtype and dims; the reason why the type is none for trainrt, or "".
std::string read_type(const onnx::ValueInfoProto& info, Port* port) {
  port->name = info.name();
  const onnx::TypeProto* whole = &info.type();
  const bool optional = whole->has_optional_type();
  if (optional) whole = &whole->optional_type().elem_type();
  const bool sequence = whole->has_sequence_type();
  if (sequence) whole = &whole->sequence_type().elem_type();
  port->kind = optional   ? (sequence ? PortKind::kOptionalSequence : PortKind::kOptional)
               : sequence ? PortKind::kSequence
                          : PortKind::kTensor;
  if (!whole->has_tensor_type()) {
    return whole->value_case() != onnx::TypeProto::VALUE_NOT_SET
               ? "is no tensor, nor a sequence or optional of tensors"
               : "has no type";
  }
  const onnx::TypeProto_Tensor& type = whole->tensor_type();
  port->has_shape = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    // Some exporters write 0 for a size that they do not know.
    port->dims.push_back({dim.dim_value() > 0 ? dim.dim_value() : -1, dim.dim_param()});
  }
  if (!dtype_from_onnx(type.elem_type(), &port->dtype)) {
    port->dtype = widened(type.elem_type());
    if (is_narrow(type.elem_type())) {
      port->narrow = type.elem_type();
      return "";
    }
    return type.elem_type() == 0 ? "has no element type"
                                 : "has element type " + onnx_type_name(type.elem_type());
  }
  return "";
}

class Importer {
 public:
  Importer(ImportedModel& model, const std::string& folder) : m_(model), reader_(folder) {}

  void run() {
    FunctionTable functions(m_.proto, problems_);
    functions_ = &functions;
    read_slots();
    m_.opsets = read_opsets(m_.proto.opset_import());
    if (m_.opsets.empty() && m_.proto.ir_version() < 3) m_.opsets[""] = 1;
    CallSite site;
    site.opsets = m_.opsets;
    Scope scope;
    try {
      import_graph(m_.proto.graph(), scope, site, 0, m_.graph);
    } catch (const Stop&) {
    }
  }

  const Diagnostics& problems() const { return problems_; }

 private:
  void report(const std::string& node, const std::string& op, const std::string& domain,
              int64_t opset, const std::string& reason) {
    if (!seen_.insert(node + '\0' + reason).second) return;
    problems_.add({node, op, domain, opset, "invalid", reason});
    if (problems_.problems().size() >= kMaxProblems) throw Stop{};
  }
  void report(const onnx::NodeProto& node, const CallSite& site, const std::string& reason) {
    const auto it = site.opsets.find(normal_domain(node.domain()));
    report(site.prefix + label_of(node), node.op_type(), node.domain(),
           it == site.opsets.end() ? 0 : it->second, reason);
  }

  void read_slots() {
    int32_t unnamed = 0;
    for_each_slot(m_.proto, [&](const Slot& slot) {
      m_.slots.emplace(slot.key(), static_cast<int32_t>(m_.stored.size()));
      Stored& stored = m_.stored.emplace_back();
      if (slot.floats != nullptr) {
        const auto& floats = slot.floats->floats();
        stored.value = Tensor::from<float>(
            std::span<const float>(floats.data(), static_cast<size_t>(floats.size())),
            {floats.size()});
        return;
      }
      try {
        stored = reader_.take(*slot.tensor);
      } catch (const Error& e) {
        const std::string& name = slot.tensor->name();
        problems_.add({"", "", "", 0, "invalid",
                       "tensor '" + (name.empty() ? "#" + std::to_string(unnamed) : name) +
                           "': " + e.what()});
        stored.unsupported = "unreadable tensor";
      }
      if (slot.tensor->name().empty()) ++unnamed;
    });
  }

  int32_t new_value(std::string name, int32_t weight = -1) {
    name_bytes_ += name.size();
    if (name_bytes_ > kMaxNameBytes) {
      report("", "", "", 0, "the names of the inlined nodes take more than 256 MiB");
      throw Stop{};
    }
    m_.values.push_back({std::move(name), weight, false});
    return static_cast<int32_t>(m_.values.size() - 1);
  }

  /// The key of a float weight: `name`, or with "#2" … when it is taken.
  std::string weight_key(const std::string& name) {
    std::string key = name;
    for (int& k = next_suffix_.try_emplace(name, 2).first->second; !keys_.insert(key).second; ++k) {
      key = name + "#" + std::to_string(k);
    }
    return key;
  }

  int32_t add_weight(const std::string& name, int32_t slot, Stored stored, bool initializer) {
    if (slot >= 0) {
      const auto known = weight_of_slot_.find(slot);
      if (known != weight_of_slot_.end()) return known->second;
    }
    ImportedWeight w;
    w.slot = slot;
    w.initializer = initializer;
    w.stored = std::move(stored);
    if (w.stored.value.defined()) {
      w.is_float = w.stored.narrow == 0 && is_float(w.stored.value.dtype());
      w.info.dtype = w.stored.value.dtype();
      w.info.shape = w.stored.value.shape();
    }
    w.info.name = w.is_float ? weight_key(name) : name;
    w.info.original = w.info.name;
    const auto index = static_cast<int32_t>(m_.weights.size());
    if (slot >= 0) weight_of_slot_[slot] = index;
    m_.weights.push_back(std::move(w));
    return index;
  }

  int32_t add_slot_weight(const std::string& name, const void* key, bool initializer) {
    const int32_t slot = m_.slots.at(key);
    return add_weight(name, slot, m_.stored[static_cast<size_t>(slot)], initializer);
  }

  void define(Scope& scope, const std::string& name, int32_t value, const onnx::NodeProto* node,
              const CallSite& site) {
    if (!scope.names.emplace(name, value).second) {
      const std::string reason = "the name \"" + name + "\" is defined twice";
      if (node != nullptr) {
        report(*node, site, reason);
      } else {
        report("", "", "", 0, reason);
      }
    }
  }

  int32_t lookup(const Scope& scope, const std::string& name, const onnx::NodeProto& node,
                 const CallSite& site,
                 const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    const int32_t value = scope.find(name);
    if (value != -2) return value;
    for (const onnx::NodeProto& other : nodes) {
      if (std::find(other.output().begin(), other.output().end(), name) == other.output().end()) {
        continue;
      }
      report(node, site,
             "input \"" + name + "\" is produced only later, by node '" + label_of(other) +
                 "': ONNX wants nodes in the order of execution");
      return -1;
    }
    report(node, site,
           "input \"" + name +
               "\" is not defined: no graph input, initializer or earlier node has this name");
    return -1;
  }

  void import_graph(const onnx::GraphProto& g, Scope& scope, const CallSite& site, int depth,
                    ImportedGraph& out) {
    out.name = g.name();
    std::unordered_set<std::string> stored;
    for (const onnx::TensorProto& t : g.initializer()) stored.insert(t.name());
    for (const onnx::ValueInfoProto& info : g.input()) {
      if (stored.count(info.name()) > 0) continue;
      const int32_t value = new_value(info.name());
      define(scope, info.name(), value, nullptr, site);
      out.inputs.push_back(value);
      if (depth > 0) continue;
      Port port;
      m_.odd_inputs.push_back(read_type(info, &port));
      m_.inputs.push_back(std::move(port));
    }
    for (const onnx::TensorProto& t : g.initializer()) {
      if (t.name().empty()) {
        report("", "", "", 0, "an initializer has no name");
        continue;
      }
      define(scope, t.name(), new_value(t.name(), add_slot_weight(t.name(), &t, true)), nullptr,
             site);
    }
    for (const onnx::SparseTensorProto& t : g.sparse_initializer()) {
      Stored nothing;
      nothing.unsupported = "sparse tensor";
      const std::string& name = t.values().name();
      define(scope, name, new_value(name, add_weight(name, -1, nothing, true)), nullptr, site);
    }
    import_nodes(g.node(), scope, site, depth, out);
    for (const onnx::ValueInfoProto& info : g.output()) {
      const int32_t value = scope.find(info.name());
      if (value < 0) {
        report("", "", "", 0,
               "output \"" + info.name() + "\" of graph '" + g.name() + "' is never computed");
        continue;
      }
      out.outputs.push_back(value);
      if (depth > 0) continue;
      Port port;
      read_type(info, &port);  // one that is not declared counts as float
      m_.float_outputs.push_back(is_float(port.dtype));
      m_.outputs.push_back(std::move(port));
    }
  }

  void import_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Scope& scope,
                    const CallSite& site, int depth, ImportedGraph& out) {
    for (const onnx::NodeProto& node : nodes) {
      const onnx::FunctionProto* f = functions_->find(node);
      node_count_ += f != nullptr ? kCallCost : 1;
      if (node_count_ > kMaxNodes) {
        report("", "", "", 0,
               "more than " + std::to_string(kMaxNodes) + " nodes after inlining functions");
        throw Stop{};
      }
      if (node.op_type().empty()) {
        report(node, site, "the node has no operator");
        continue;
      }
      std::vector<int32_t> inputs;
      for (const std::string& name : node.input()) {
        inputs.push_back(name.empty() ? -1 : lookup(scope, name, node, site, nodes));
      }
      while (!inputs.empty() && inputs.back() == -1) inputs.pop_back();
      if (f != nullptr) {
        import_call(node, *f, inputs, scope, site, depth, out);
      } else if (node.op_type() == "Constant" && normal_domain(node.domain()).empty()) {
        import_constant(node, scope, site);
      } else {
        import_node(node, std::move(inputs), scope, site, depth, out);
      }
    }
  }

  void import_call(const onnx::NodeProto& node, const onnx::FunctionProto& function,
                   const std::vector<int32_t>& inputs, Scope& scope, const CallSite& site,
                   int depth, ImportedGraph& out) {
    CallSite inside;
    try {
      const std::string label = label_of(node).substr(0, 100);
      inside = enter_call(node, function, scope, site, m_.opsets, label);
    } catch (const Error& e) {
      report(node, site, e.what());
      for (const std::string& name : node.output()) {
        if (!name.empty()) define(scope, name, new_value(name), &node, site);
      }
      return;
    }
    Scope body;
    for (int i = 0; i < function.input_size(); ++i) {
      const auto at = static_cast<size_t>(i);
      define(body, function.input(i), at < inputs.size() ? inputs[at] : -1, &node, inside);
    }
    const auto first = static_cast<int32_t>(m_.values.size());
    import_nodes(function.node(), body, inside, depth, out);
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      int32_t value = body.find(function.output(i));
      if (value < 0) {
        report(node, site,
               "output \"" + function.output(i) + "\" of the function " + function.name() +
                   " is never computed");
        value = new_value(node.output(i));
      }
      define(scope, node.output(i), value, &node, site);
      ImportedValue& v = m_.values[static_cast<size_t>(value)];
      if (value >= first && v.weight < 0) v.name = site.prefix + node.output(i);
    }
  }

  void import_constant(const onnx::NodeProto& node, Scope& scope, const CallSite& site) {
    ++m_.op_counts["Constant"];
    if (node.output_size() != 1 || node.output(0).empty()) {
      report(node, site, "a Constant has exactly one output");
      return;
    }
    const std::string& name = node.output(0);
    int32_t weight = -1;
    for (const onnx::AttributeProto& a : node.attribute()) {
      const onnx::AttributeProto* v = resolve_attribute(a, scope, site).proto;
      if (v == nullptr) continue;
      const std::string& kind = a.name();
      Stored stored;
      if (kind == "value" && v->has_t()) {
        weight = add_slot_weight(name, &v->t(), false);
      } else if (kind == "value_floats" && m_.slots.count(v) > 0) {
        weight = add_slot_weight(name, v, false);
      } else if (kind == "value_floats") {
        stored.value = Tensor::from<float>(
            {v->floats().data(), static_cast<size_t>(v->floats_size())}, {v->floats_size()});
      } else if (kind == "value_float") {
        stored.value = Tensor::scalar<float>(v->f());
      } else if (kind == "value_int") {
        stored.value = Tensor::scalar<int64_t>(v->i());
      } else if (kind == "value_ints") {
        const std::vector<int64_t> ints(v->ints().begin(), v->ints().end());
        stored.value = Tensor::of_ints(ints);
      } else if (kind == "sparse_value") {
        stored.unsupported = "sparse tensor";
      } else if (kind == "value_string" || kind == "value_strings") {
        stored.unsupported = "string tensor";
      }
      if (stored.value.defined() || !stored.unsupported.empty()) {
        weight = add_weight(name, -1, std::move(stored), false);
      }
      if (weight >= 0) break;
    }
    if (weight < 0) report(node, site, "a Constant without a value");
    define(scope, name, new_value(site.prefix + name, weight), &node, site);
  }

  void import_node(const onnx::NodeProto& node, std::vector<int32_t> inputs, Scope& scope,
                   const CallSite& site, int depth, ImportedGraph& out) {
    ImportedNode n;
    n.proto = &node;
    n.name = site.prefix + label_of(node);
    n.op = node.op_type();
    n.domain = normal_domain(node.domain());
    n.inputs = std::move(inputs);
    const auto version = site.opsets.find(n.domain);
    if (version != site.opsets.end()) {
      n.opset = version->second;
    } else if (n.domain.empty()) {
      report(node, site, "the model imports no opset of the default domain");
    } else {
      n.opset = 1;
      if (seen_.insert("domain " + n.domain).second) {
        m_.warnings.push_back("the model imports no version of domain '" + n.domain +
                              "': taken as 1");
      }
    }
    n.row = find_registered(n.domain, n.op, n.opset);
    if (n.row == nullptr) n.row = find_lowering(n.domain, n.op, n.opset);
    ++m_.op_counts[n.domain.empty() ? n.op : n.domain + "::" + n.op];
    for (const onnx::AttributeProto& a : node.attribute()) {
      const BoundAttribute bound = resolve_attribute(a, scope, site);
      if (bound.proto == nullptr) continue;
      ImportedAttr attr;
      attr.name = a.name();
      attr.proto = bound.proto;
      if (bound.proto->has_g()) {
        if (depth >= kMaxGraphDepth) {
          report(
              node, site,
              "subgraphs are nested more than " + std::to_string(kMaxGraphDepth) + " levels deep");
          throw Stop{};
        }
        attr.graph = std::make_unique<ImportedGraph>();
        Scope inner;
        inner.outer = bound.scope;
        import_graph(bound.proto->g(), inner, *bound.site, depth + 1, *attr.graph);
      }
      n.attrs.push_back(std::move(attr));
    }
    for (const std::string& name : node.output()) {
      int32_t value = -1;
      if (!name.empty()) {
        value = new_value(site.prefix + name);
        define(scope, name, value, &node, site);
      }
      n.outputs.push_back(value);
    }
    while (!n.outputs.empty() && n.outputs.back() == -1) n.outputs.pop_back();
    out.nodes.push_back(std::move(n));
  }

  ImportedModel& m_;
  TensorReader reader_;
  const FunctionTable* functions_ = nullptr;
  Diagnostics problems_;
  std::set<std::string> seen_;
  std::unordered_set<std::string> keys_;
  std::unordered_map<std::string, int> next_suffix_;
  std::unordered_map<int32_t, int32_t> weight_of_slot_;
  int64_t node_count_ = 0;
  size_t name_bytes_ = 0;
};

void mark_needed(ImportedModel& m, ImportedGraph& graph) {
  auto read = [&](int32_t value) {
    if (value >= 0) m.values[static_cast<size_t>(value)].read = true;
  };
  for (int32_t value : graph.outputs) read(value);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    ImportedNode& n = graph.nodes[i];
    n.needed = std::any_of(n.outputs.begin(), n.outputs.end(), [&](int32_t v) {
      return v >= 0 && m.values[static_cast<size_t>(v)].read;
    });
    if (!n.needed) continue;
    for (int32_t value : n.inputs) read(value);
    for (ImportedAttr& a : n.attrs) {
      if (a.graph) mark_needed(m, *a.graph);
    }
  }
}

void warn_of_versions(ImportedModel& m) {
  const auto version = m.opsets.find("");
  if (version != m.opsets.end() && version->second > kNewestOpset) {
    m.warnings.push_back("the model uses opset " + std::to_string(version->second) +
                         ", the newest one known is " + std::to_string(kNewestOpset) +
                         ": operators that changed since may mean something else");
  }
}

}  // namespace

std::unique_ptr<ImportedModel> import_model(std::unique_ptr<ImportedModel> model,
                                            const std::string& what, const std::string& folder) {
  Importer importer(*model, folder);
  importer.run();
  importer.problems().throw_if_any(ErrorCode::kInvalidModel, what + ": the model is invalid:");
  mark_needed(*model, model->graph);
  model->torch = read_torch_metadata(model->proto);
  find_parameters(*model);
  warn_of_versions(*model);
  return model;
}

}  // namespace trainrt
