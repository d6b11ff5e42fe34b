#include "frontend/specialize.h"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace trainrt {
namespace {

constexpr uint64_t kMaxFolded = uint64_t{2} << 30;  // bytes of constants computed for one graph
constexpr uint64_t kMaxEvaluated = uint64_t{1} << 30;
constexpr int64_t kMaxSteps = 1'000'000;            // ONNX nodes lowered, loops unrolled
constexpr int32_t kMaxIrNodes = 4'000'000;

/// A subgraph could not be lowered, for a reason that is reported already.
struct Poisoned {};

size_t index(int32_t i) { return static_cast<size_t>(i); }

Evaluator bounded(const Evaluator& evaluator) {
  if (!evaluator) return {};
  return [evaluator, total = uint64_t{0}](Op op, const Attrs& attrs,
                                          std::span<const Tensor> inputs,
                                          std::span<const TensorType> outputs) mutable {
    for (const TensorType& t : outputs) total += t.bytes();
    if (total > kMaxFolded) {
      throw Error(ErrorCode::kMemory, "constants computed from the model's shapes and weights "
                                      "take more than 2 GiB");
    }
    return evaluator(op, attrs, inputs, outputs);
  };
}

class Specializer {
 public:
  Specializer(const ImportedModel& model, const SpecializeOptions& options,
              const Evaluator& evaluator, Diagnostics& problems)
      : m(model), options(options), problems(problems), evaluator(evaluator),
        b(result.graph, bounded(evaluator)), env(model.values.size()),
        poisoned(model.values.size(), false) {}

  Specialized run(const std::map<std::string, InputBinding>& inputs);

  bool is_poisoned(int32_t value) const { return value >= 0 && poisoned[index(value)]; }
  /// The value of an input of a node; weights are made on first use.
  Var get(int32_t value);
  void set(int32_t value, Var v) {
    env[index(value)] = v;
    poisoned[index(value)] = false;
    sequences.erase(value);
  }
  std::vector<Var> subgraph(const ImportedGraph& graph, std::span<const Var> inputs);
  Tensor constant_of(Var v, const std::string& what);

  const ImportedModel& m;
  const SpecializeOptions& options;
  Diagnostics& problems;
  Specialized result;
  const Evaluator& evaluator;
  Builder b;
  std::vector<Var> env;  // by value
  std::vector<bool> poisoned;
  std::map<int32_t, std::vector<Var>> sequences;  // values that are sequences; not in env
  Var rng;
  int64_t streams = 0;
  /// New value of each buffer, in order of first update, and the origin of the last one.
  struct Update {
    ValueId buffer;
    Var value;
    int32_t source;
  };
  std::vector<Update> updates;

 private:
  void bind(const std::map<std::string, InputBinding>& inputs);
  void report_unknown();
  void lower_graph(const ImportedGraph& graph);
  void lower_node(const ImportedNode& node);
  void report(const ImportedNode& node, const std::string& kind, const std::string& reason) {
    problems.add({node.name, node.op, node.domain, node.opset, kind, reason});
  }
  void poison_outputs(const ImportedNode& node) {
    for (int32_t v : node.outputs) {
      if (v >= 0) poisoned[index(v)] = true;
    }
  }
  std::vector<bool> ancestors(Var v) const;
  Tensor evaluate(Var v, const std::vector<bool>& nodes, const std::string& what);
  Var weight(int32_t w);

  std::map<int32_t, Var> weights_;
  std::map<std::string, const ImportedWeight*> stored_by_name_;
  int64_t steps_ = 0;
  bool stopped_ = false;
};

class Context final : public LowerContext {
 public:
  Context(Specializer& s, const ImportedNode& node)
      : LowerContext(s.b, s.options, node.opset, node.op), s_(s), node_(node) {}

  size_t input_count() const override { return node_.inputs.size(); }
  Var in(size_t i) const override {
    if (i >= node_.inputs.size() || node_.inputs[i] < 0) return Var();
    const Var v = s_.get(node_.inputs[i]);
    if (!v && s_.sequences.count(node_.inputs[i]) > 0) {
      refuse("no_lowering", "input " + std::to_string(i) + " is a sequence; this operator takes "
                                                             "tensors only");
    }
    if (i >= 3 && op == "BatchNormalization") {
      // The layer ran before in this graph: go on from what it left, as frameworks do.
      for (const Specializer::Update& u : s_.updates) {
        if (u.buffer == v.id()) return u.value;
      }
    }
    return v;
  }
  Tensor constant(size_t i) const override {
    const Var v = need(i);
    return s_.constant_of(v, "input " + std::to_string(i) + " ('" + value_name(i) + "')");
  }
  Tensor constant_of(Var v, const std::string& what) const override {
    return s_.constant_of(v, what);
  }

  bool has_attr(std::string_view name) const override { return node_.find(name) != nullptr; }
  int64_t attr_int(std::string_view name) const override {
    return attribute(name, onnx::AttributeProto::INT, "an integer").i();
  }
  double attr_float(std::string_view name) const override {
    return static_cast<double>(attribute(name, onnx::AttributeProto::FLOAT, "a float").f());
  }
  std::string attr_string(std::string_view name) const override {
    return attribute(name, onnx::AttributeProto::STRING, "a string").s();
  }
  std::vector<int64_t> attr_ints(std::string_view name) const override {
    const auto& a = attribute(name, onnx::AttributeProto::INTS, "a list of integers");
    return {a.ints().begin(), a.ints().end()};
  }
  std::vector<double> attr_floats(std::string_view name) const override {
    const auto& a = attribute(name, onnx::AttributeProto::FLOATS, "a list of floats");
    return {a.floats().begin(), a.floats().end()};
  }
  std::vector<std::string> attr_strings(std::string_view name) const override {
    const auto& a = attribute(name, onnx::AttributeProto::STRINGS, "a list of strings");
    return {a.strings().begin(), a.strings().end()};
  }
  Tensor attr_tensor(std::string_view name) const override {
    const auto& a = attribute(name, onnx::AttributeProto::TENSOR, "a tensor");
    const auto slot = s_.m.slots.find(&a.t());
    if (slot == s_.m.slots.end()) invalid("attribute " + std::string(name) + " holds no tensor");
    const Stored& stored = s_.m.stored[index(slot->second)];
    if (!stored.unsupported.empty()) {
      refuse("no_lowering", "attribute " + std::string(name) + " is a " + stored.unsupported);
    }
    return is_float(stored.value.dtype()) ? stored.value.to(working) : stored.value;
  }

  size_t output_count() const override { return node_.outputs.size(); }
  bool wants(size_t i) const override {
    return i < node_.outputs.size() && node_.outputs[i] >= 0 &&
           s_.m.values[index(node_.outputs[i])].read;
  }
  void set(size_t i, Var value) override {
    if (i < node_.outputs.size() && node_.outputs[i] >= 0 && value) {
      s_.set(node_.outputs[i], value);
    }
  }

  std::vector<Var> sequence(size_t i) const override {
    const auto it = i < node_.inputs.size() ? s_.sequences.find(node_.inputs[i])
                                            : s_.sequences.end();
    if (it == s_.sequences.end()) invalid("input " + std::to_string(i) + " is no sequence");
    return it->second;
  }
  void set_sequence(size_t i, std::vector<Var> values) override {
    if (i < node_.outputs.size() && node_.outputs[i] >= 0) {
      s_.sequences[node_.outputs[i]] = std::move(values);
    }
  }

  Var rng() override {
    if (!s_.rng) {
      s_.rng = b.input(InputAttrs{"rng", InputRole::kRng, DType::kInt64, {2}});
    }
    return s_.rng;
  }
  int64_t next_stream() override { return s_.streams++; }

  void update_buffer(size_t i, Var value) override {
    if (!options.training || i >= node_.inputs.size() || node_.inputs[i] < 0) return;
    const Var buffer = s_.get(node_.inputs[i]);
    const Node& producer = b.graph().producer(buffer.id());
    const auto* input = std::get_if<InputAttrs>(&producer.attrs);
    if (producer.op != Op::kInput || input == nullptr || input->role != InputRole::kBuffer) return;
    for (Specializer::Update& u : s_.updates) {
      if (u.buffer == buffer.id()) {
        u.value = value;
        u.source = b.source();
        return;
      }
    }
    s_.updates.push_back({buffer.id(), value, b.source()});
  }

  std::vector<Var> subgraph(std::string_view attr, std::span<const Var> inputs) override {
    return s_.subgraph(graph(attr), inputs);
  }
  size_t subgraph_input_count(std::string_view attr) const override {
    return graph(attr).inputs.size();
  }
  size_t subgraph_output_count(std::string_view attr) const override {
    return graph(attr).outputs.size();
  }

 private:
  const std::string& value_name(size_t i) const {
    return s_.m.values[index(node_.inputs[i])].name;
  }

  const onnx::AttributeProto& attribute(std::string_view name,
                                        onnx::AttributeProto::AttributeType type,
                                        const char* what) const {
    const ImportedAttr* a = node_.find(name);
    if (a == nullptr) invalid("attribute " + std::string(name) + " is missing");
    // Very old files leave the type out.
    if (a->proto->type() != type && a->proto->type() != onnx::AttributeProto::UNDEFINED) {
      invalid("attribute " + std::string(name) + " must be " + what);
    }
    return *a->proto;
  }

  const ImportedGraph& graph(std::string_view attr) const {
    const ImportedAttr* a = node_.find(attr);
    if (a == nullptr || !a->graph) invalid("attribute " + std::string(attr) + " holds no graph");
    return *a->graph;
  }

  Specializer& s_;
  const ImportedNode& node_;
};

Var Specializer::weight(int32_t w) {
  const auto known = weights_.find(w);
  if (known != weights_.end()) return known->second;
  const ImportedWeight& stored = m.weights[index(w)];
  Var v;
  if (stored.use == WeightUse::kConstant) {
    const Tensor& t = stored.stored.value;
    v = b.constant(is_float(t.dtype()) && t.dtype() != options.working ? t.to(options.working) : t);
  } else {
    v = b.input(InputAttrs{stored.info.name,
                           stored.use == WeightUse::kParameter ? InputRole::kParameter
                                                               : InputRole::kBuffer,
                           options.working, stored.info.shape});
    result.graph.value(v.id()).name = stored.info.name;
    stored_by_name_[stored.info.name] = &stored;
  }
  return weights_[w] = v;
}

Var Specializer::get(int32_t value) {
  const int32_t w = m.values[index(value)].weight;
  return w >= 0 ? weight(w) : env[index(value)];
}

void Specializer::bind(const std::map<std::string, InputBinding>& inputs) {
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    const Port& port = m.inputs[i];
    const int32_t value = m.graph.inputs[i];
    if (!m.odd_inputs[i].empty()) {
      poisoned[index(value)] = true;
      if (m.values[index(value)].read) {
        problems.add({"", "", "", 0, "no_lowering",
                      "input " + port.name + " " + m.odd_inputs[i] +
                          ": trainrt takes tensors of floats, integers and bools"});
      }
      continue;
    }
    const InputBinding& binding = inputs.at(port.name);
    const DType dtype = is_float(port.dtype) ? options.working : port.dtype;
    if (binding.value) {
      const Tensor& t = *binding.value;
      // A copy: the caller may change its tensor while the graph lives.
      set(value, b.constant(t.dtype() == dtype ? t.clone() : t.to(dtype)));
    } else {
      const Var v = b.input(InputAttrs{port.name, InputRole::kData, dtype, binding.type.shape});
      result.graph.value(v.id()).name = port.name;
      set(value, v);
    }
  }
}

void Specializer::report_unknown() {
  for_each_imported(m.graph, [&](const ImportedNode& n) {
    if (n.row != nullptr) return;
    const std::string full = (n.domain.empty() ? "ai.onnx" : n.domain) + "::" + n.op;
    const std::optional<int64_t> oldest = oldest_lowering(n.domain, n.op);
    report(n, "no_lowering",
           oldest ? full + " of opset " + std::to_string(n.opset) + " is older than opset " +
                        std::to_string(*oldest) + ", the oldest one trainrt knows for it"
                  : "trainrt does not know the operator " + full);
  });
}

Specialized Specializer::run(const std::map<std::string, InputBinding>& inputs) {
  report_unknown();
  bind(inputs);
  lower_graph(m.graph);
  for (const Update& u : updates) {
    b.set_source(u.source);
    const Var buffer = b.wrap(u.buffer);
    const std::string name = std::get<InputAttrs>(result.graph.producer(u.buffer).attrs).name;
    const Var assigned = b.add(Op::kAssign, {buffer, cast(u.value, buffer.dtype())});
    result.graph.add_output(name, assigned.id(), OutputRole::kState);
  }
  b.set_source(-1);
  std::vector<Output> outputs;
  for (size_t i = 0; i < m.graph.outputs.size(); ++i) {
    const int32_t value = m.graph.outputs[i];
    const int32_t w = m.values[index(value)].weight;
    if (is_poisoned(value)) continue;
    if (w >= 0 && !m.weights[index(w)].stored.unsupported.empty()) {
      problems.add({"", "", "", 0, "no_lowering", "output " + m.outputs[i].name + " is a " +
                                                      m.weights[index(w)].stored.unsupported});
      continue;
    }
    const Var v = get(value);
    if (!v) {
      problems.add({"", "", "", 0, "no_lowering", "output " + m.outputs[i].name + " is no tensor"});
      continue;
    }
    outputs.push_back({m.outputs[i].name, v.id(), OutputRole::kOutput});
  }
  auto& all = result.graph.outputs();
  all.insert(all.begin(), outputs.begin(), outputs.end());
  std::sort(result.needs_value.begin(), result.needs_value.end());
  return std::move(result);
}

void Specializer::lower_graph(const ImportedGraph& graph) {
  for (const ImportedNode& node : graph.nodes) {
    if (node.needed) lower_node(node);
  }
}

void Specializer::lower_node(const ImportedNode& node) {
  if (stopped_ || node.row == nullptr ||
      std::any_of(node.inputs.begin(), node.inputs.end(),
                  [&](int32_t v) { return is_poisoned(v); })) {
    poison_outputs(node);
    return;
  }
  if (++steps_ > kMaxSteps || result.graph.node_count() > kMaxIrNodes) {
    stopped_ = true;
    report(node, "memory", "the graph grows beyond " + std::to_string(kMaxSteps) +
                               " operations when its loops are unrolled");
    poison_outputs(node);
    return;
  }
  for (int32_t v : node.inputs) {
    const int32_t w = v < 0 ? -1 : m.values[index(v)].weight;
    if (w < 0 || m.weights[index(w)].stored.unsupported.empty()) continue;
    report(node, "no_lowering", "input '" + m.values[index(v)].name + "' is a " +
                                    m.weights[index(w)].stored.unsupported +
                                    ", which trainrt does not compute with");
    poison_outputs(node);
    return;
  }

  const int32_t outer = b.source();
  b.set_source(result.graph.add_source({node.name, node.op, node.domain, node.opset}));
  for (int32_t v : node.outputs) {
    if (v >= 0) set(v, Var());
  }
  try {
    Context context(*this, node);
    node.row->lower(context);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!context.wants(i)) continue;
      const int32_t v = node.outputs[i];
      if (sequences.count(v) > 0) continue;
      if (!env[index(v)]) {
        throw LowerError{"no_lowering", "output " + std::to_string(i) + " ('" +
                                            m.values[index(v)].name + "') is not supported"};
      }
      std::string& name = result.graph.value(env[index(v)].id()).name;
      if (name.empty()) name = m.values[index(v)].name;
    }
  } catch (const LowerError& e) {
    report(node, e.kind, e.reason);
    poison_outputs(node);
  } catch (const Poisoned&) {
    poison_outputs(node);
  } catch (const Error& e) {
    poison_outputs(node);
    switch (e.code()) {
      case ErrorCode::kInternal:
        b.set_source(outer);
        throw Error(ErrorCode::kInternal, "node '" + node.name + "' (" + node.op + "): " + e.what());
      case ErrorCode::kMemory: report(node, "memory", e.what()); break;
      case ErrorCode::kUnsupported: report(node, "no_lowering", e.what()); break;
      default: report(node, "invalid", e.what());
    }
  } catch (const std::bad_alloc&) {
    report(node, "memory", "not enough memory to build it");
    poison_outputs(node);
  } catch (const std::length_error&) {
    report(node, "memory", "a size is out of reach");
    poison_outputs(node);
  }
  b.set_source(outer);
}

std::vector<Var> Specializer::subgraph(const ImportedGraph& graph, std::span<const Var> inputs) {
  if (inputs.size() != graph.inputs.size()) {
    throw LowerError{"invalid", "subgraph '" + graph.name + "' has " +
                                    std::to_string(graph.inputs.size()) + " inputs, given " +
                                    std::to_string(inputs.size())};
  }
  if (++steps_ > kMaxSteps) throw LowerError{"memory", "its loops run too often to unroll"};
  for (size_t i = 0; i < inputs.size(); ++i) set(graph.inputs[i], inputs[i]);
  lower_graph(graph);
  std::vector<Var> outputs;
  for (int32_t value : graph.outputs) {
    if (is_poisoned(value)) throw Poisoned{};
    const int32_t w = m.values[index(value)].weight;
    if (w >= 0 && !m.weights[index(w)].stored.unsupported.empty()) {
      throw LowerError{"no_lowering", "output '" + m.values[index(value)].name + "' is a " +
                                          m.weights[index(w)].stored.unsupported};
    }
    outputs.push_back(get(value));
    if (!outputs.back()) {
      throw LowerError{"no_lowering", "output '" + m.values[index(value)].name +
                                          "' of subgraph '" + graph.name + "' is no tensor"};
    }
  }
  return outputs;
}

/// The nodes that v is computed from, by index; Input nodes are among them.
std::vector<bool> Specializer::ancestors(Var v) const {
  std::vector<bool> seen(index(result.graph.node_count()), false);
  std::vector<NodeId> open = {result.graph.value(v.id()).producer};
  seen[index(open[0].index)] = true;
  while (!open.empty()) {
    const Node& n = result.graph.node(open.back());
    open.pop_back();
    for (ValueId input : n.inputs) {
      const NodeId producer = result.graph.value(input).producer;
      if (seen[index(producer.index)]) continue;
      seen[index(producer.index)] = true;
      open.push_back(producer);
    }
  }
  return seen;
}

Tensor Specializer::constant_of(Var v, const std::string& what) {
  if (const std::optional<Tensor> known = b.constant_value(v)) return *known;
  const std::vector<bool> nodes = ancestors(v);
  std::vector<std::string> wanted, contents;  // inputs whose value would do, and those of floats
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i]) continue;
    const Node& n = result.graph.nodes()[i];
    if (n.op != Op::kInput) continue;
    const InputAttrs& input = std::get<InputAttrs>(n.attrs);
    if (input.role == InputRole::kRng) contents.push_back("random numbers");
    if (input.role != InputRole::kData) continue;
    (is_float(input.dtype) ? contents : wanted).push_back(input.name);
  }
  if (!contents.empty()) {
    std::string names;
    for (const std::string& name : contents) names += (names.empty() ? "" : ", ") + name;
    throw LowerError{"dynamic", what + " must be known when the plan is built, but depends on the "
                                       "contents of " + names};
  }
  if (!wanted.empty()) {
    for (std::string& name : wanted) {
      auto& list = result.needs_value;
      if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(std::move(name));
    }
    throw Poisoned{};
  }
  return evaluate(v, nodes, what);
}

/// v from the stored weights.
Tensor Specializer::evaluate(Var v, const std::vector<bool>& nodes, const std::string& what) {
  std::map<ValueId, Tensor> values;
  uint64_t bytes = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i]) continue;
    const Node& n = result.graph.nodes()[i];
    if (n.op == Op::kInput) {
      const ImportedWeight* w = stored_by_name_.at(std::get<InputAttrs>(n.attrs).name);
      values[n.outputs[0]] = w->stored.value.to(options.working);
    } else if (const auto known = b.constant_value(b.wrap(n.outputs[0]))) {
      values[n.outputs[0]] = *known;
    } else {
      std::vector<Tensor> inputs;
      for (ValueId input : n.inputs) inputs.push_back(values.at(input));
      std::vector<TensorType> types;
      for (ValueId output : n.outputs) {
        types.push_back(result.graph.type(output));
        bytes += types.back().bytes();
      }
      if (!evaluator || bytes > kMaxEvaluated) {
        throw LowerError{"dynamic", what + " must be known when the plan is built, but is too "
                                           "costly to compute then"};
      }
      const std::vector<Tensor> outputs = evaluator(n.op, n.attrs, inputs, types);
      for (size_t k = 0; k < outputs.size(); ++k) values[n.outputs[k]] = outputs[k];
    }
  }
  return values.at(v.id());
}

}  // namespace

Specialized specialize_model(const ImportedModel& model,
                             const std::map<std::string, InputBinding>& inputs,
                             const SpecializeOptions& options, const Evaluator& evaluator,
                             Diagnostics& problems) {
  check_bindings(model, inputs);
  return Specializer(model, options, evaluator, problems).run(inputs);
}

}  // namespace trainrt
