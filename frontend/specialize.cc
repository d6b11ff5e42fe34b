#include "frontend/specialize.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "frontend/module_calls.h"
#include "frontend/scope.h"
#include "frontend/specializer.h"

namespace trainrt {
namespace {

constexpr int64_t kMaxSteps = 1'000'000;  // ONNX nodes lowered, loops unrolled
constexpr int32_t kMaxIrNodes = 1'000'000;

}  // namespace

Var Specializer::weight(int32_t w) {
  const auto known = weights_.find(w);
  if (known != weights_.end()) return known->second;
  const ImportedWeight& stored = m.weights[index(w)];
  Var v;
  if (stored.use == WeightUse::kConstant) {
    const Tensor& t = stored.stored.value;
    v = b.constant(is_float(t.dtype()) && t.dtype() != options.working ? t.to(options.working) : t);
  } else if (stored.use == WeightUse::kTied) {
    const Var one = weight(stored.tied_to);
    v = stored.tied_transposed ? transpose(one, {1, 0}) : one;
  } else {
    v = b.input(
        InputAttrs{stored.info.name,
                   stored.use == WeightUse::kParameter ? InputRole::kParameter : InputRole::kBuffer,
                   options.working, stored.info.shape});
    result.graph.value(v.id()).name = stored.info.name;
    stored_by_name_[stored.info.name] = &stored;
  }
  return weights_[w] = v;
}

NodeValue Specializer::get(int32_t value) {
  const int32_t w = m.values[index(value)].weight;
  return w >= 0 ? weight(w) : env[index(value)];
}

Var Specializer::bind_tensor(const std::string& name, DType declared, const InputBinding& binding) {
  const DType dtype = is_float(declared) ? options.working : declared;
  if (binding.value) {
    const Tensor& t = *binding.value;
    // A copy: the caller may change its tensor while the graph lives.
    return b.constant(t.dtype() == dtype ? t.clone() : t.to(dtype));
  }
  const Var v = b.input(InputAttrs{name, InputRole::kData, dtype, binding.type.shape});
  result.graph.value(v.id()).name = name;
  return v;
}

NodeValue Specializer::bind_port(const Port& port,
                                 const std::map<std::string, InputBinding>& inputs) {
  if (port.kind == PortKind::kTensor || port.kind == PortKind::kOptional) {
    const auto it = inputs.find(port.name);
    if (it == inputs.end()) return EmptyOptional();
    return bind_tensor(port.name, port.dtype, it->second);
  }
  Sequence entries;
  for (;;) {
    const std::string name = entry_name(port.name, entries.size());
    const auto it = inputs.find(name);
    if (it == inputs.end()) break;
    entries.push_back(bind_tensor(name, port.dtype, it->second));
  }
  if (entries.empty() && port.kind == PortKind::kOptionalSequence) return EmptyOptional();
  return entries;
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
    set(value, bind_port(port, inputs));
    if (port.narrow != 0) narrow[value] = port.narrow;
  }
}

void Specializer::report_unknown(const ImportedGraph& graph) {
  for (const ImportedNode& n : graph.nodes) {
    if (!n.needed) continue;
    if (n.row == nullptr) {
      const std::string full = (n.domain.empty() ? "ai.onnx" : n.domain) + "::" + n.op;
      const std::optional<int64_t> oldest = oldest_lowering(n.domain, n.op);
      report(n, "no_lowering",
             oldest ? full + " of opset " + std::to_string(n.opset) + " is older than opset " +
                          std::to_string(*oldest) + ", the oldest one trainrt knows for it"
                    : "trainrt does not know the operator " + full);
    }
    for (const ImportedAttr& a : n.attrs) {
      if (a.graph && !is_left_out(*a.graph)) report_unknown(*a.graph);
    }
  }
}

Specialized Specializer::run(const std::map<std::string, InputBinding>& inputs) {
  bind(inputs);
  lower_graph(m.graph);
  report_unknown(m.graph);
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
      problems.add(
          {"", "", "", 0, "no_lowering",
           "output " + m.outputs[i].name + " is a " + m.weights[index(w)].stored.unsupported});
      continue;
    }
    const NodeValue found = get(value);
    const std::string& name = m.outputs[i].name;
    if (const Var v = tensor_of(found)) outputs.push_back({name, v.id(), OutputRole::kOutput});
    if (const Sequence* entries = std::get_if<Sequence>(&found)) {
      for (size_t k = 0; k < entries->size(); ++k) {
        outputs.push_back({entry_name(name, k), (*entries)[k].id(), OutputRole::kOutput});
      }
    }
  }
  auto& all = result.graph.outputs();
  all.insert(all.begin(), outputs.begin(), outputs.end());
  std::sort(result.needs_value.begin(), result.needs_value.end());
  return std::move(result);
}

const SpecializeOptions& Specializer::options_of(const ImportedNode& node) const {
  if (options.modes.empty()) return options;
  const std::string& path = node.module;
  bool training = options.training;
  size_t nearest = 0;
  for (const auto& [module, mode] : options.modes) {
    if (module.size() >= nearest && is_inside(path, module)) {
      nearest = module.size();
      training = mode;
    }
  }
  return training == options.training ? options : other_mode;
}

void Specializer::lower_graph(const ImportedGraph& graph) {
  if (options.borders != nullptr) return lower_calls(graph);
  for (const ImportedNode& node : graph.nodes) {
    if (node.needed) lower_node(node);
  }
}

/// The node's formulas see constants; what they give passes a Call that has the rule as its
/// gradient.
void Specializer::lower_with_gradient(LowerContext& context, const ImportedNode& node,
                                      const RegisteredGradient& rule) {
  std::vector<Var> inputs;
  std::map<int32_t, NodeValue> outer;
  std::map<int32_t, Var> outer_weights;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int32_t v = node.inputs[i];
    if (v < 0 || outer.contains(v)) continue;
    const Var x = tensor_of(get(v));
    if (!x || !is_float(x.dtype())) continue;
    const int32_t w = m.values[index(v)].weight;
    if (w >= 0 && m.weights[index(w)].use == WeightUse::kBuffer) continue;  // to be updated
    outer[v] = env[index(v)];
    if (w >= 0) {
      outer_weights[w] = x;
      weights_[w] = stop_gradient(x);
    } else {
      env[index(v)] = stop_gradient(x);
    }
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int32_t v = node.inputs[i];
    const auto weight = v < 0 ? outer_weights.end() : outer_weights.find(m.values[index(v)].weight);
    const auto value = outer.find(v);
    inputs.push_back(weight != outer_weights.end() ? weight->second
                     : value != outer.end()        ? tensor_of(value->second)
                     : v < 0                       ? Var()
                                                   : tensor_of(get(v)));
  }
  const auto restore = [&] {
    for (auto& [v, value] : outer) env[index(v)] = value;
    for (auto& [w, x] : outer_weights) weights_[w] = x;
  };
  try {
    node.row->lower(context);
  } catch (...) {
    restore();
    throw;
  }
  restore();
  std::vector<Var> operands;
  std::vector<TensorType> types;
  std::vector<int32_t> outputs;
  for (int32_t v : node.outputs) {
    const Var y = v < 0 ? Var() : tensor_of(env[index(v)]);
    if (!y || b.is_constant(y)) continue;  // what is known stays known
    outputs.push_back(v);
    operands.push_back(y);
    types.push_back(y.type());
  }
  if (outputs.empty()) return;
  const size_t count = operands.size();
  std::vector<size_t> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    given.push_back(i);
    operands.push_back(inputs[i]);
  }
  CallFunction call;
  call.name = node.domain.empty() ? node.op : node.domain + "::" + node.op;
  call.run = [](const CallRun& r) {
    for (size_t i = 0; i < r.outputs.size(); ++i) r.outputs[i].copy_from(r.inputs[i]);
  };
  call.gradient = [rule, count, given, total = inputs.size(),
                   name = call.name](const CallGradient& g) {
    std::vector<Var> x(total), result(g.inputs.size());
    std::vector<bool> needed(total);
    for (size_t k = 0; k < given.size(); ++k) {
      x[given[k]] = g.inputs[count + k];
      needed[given[k]] = g.needed[count + k];
    }
    const std::vector<Var> gradients =
        rule({g.b, x, g.outputs, g.output_gradients, std::move(needed)});
    if (gradients.size() > total) {
      throw Error(ErrorCode::kUsage, "the gradient rule of " + name + " gives " +
                                         std::to_string(gradients.size()) + " gradients for " +
                                         std::to_string(total) + " inputs");
    }
    for (size_t k = 0; k < given.size(); ++k) {
      const size_t i = given[k];
      if (i >= gradients.size() || !gradients[i] || !g.needed[count + k]) continue;
      if (gradients[i].type() != x[i].type()) {
        throw Error(ErrorCode::kUsage,
                    "the gradient rule of " + name + " gives " + to_string(gradients[i].type()) +
                        " for input " + std::to_string(i) + ", which is " + to_string(x[i].type()));
      }
      result[count + k] = gradients[i];
    }
    return result;
  };
  const std::vector<Var> passed =
      b.add_all(Op::kCall, operands, call_attrs(add_call(std::move(call)), types));
  for (size_t k = 0; k < outputs.size(); ++k) env[index(outputs[k])] = passed[k];
}

/// What of `values` crosses a border: tensors that are there and not known already.
std::vector<Var> Specializer::cross(const std::vector<int32_t>& values,
                                    std::vector<std::string>& names,
                                    std::vector<int32_t>& crossing) const {
  std::vector<Var> vars;
  for (int32_t v : values) {
    if (m.values[index(v)].weight >= 0 || is_poisoned(v)) continue;
    const Var var = tensor_of(env[index(v)]);
    if (!var || b.is_constant(var)) continue;
    vars.push_back(var);
    names.push_back(m.values[index(v)].name);
    crossing.push_back(v);
  }
  return vars;
}

void Specializer::lower_calls(const ImportedGraph& graph) {
  // What the inputs of the open calls are outside of them.
  std::vector<std::vector<std::pair<int32_t, NodeValue>>> outer;
  for (const CallStep& step : find_calls(m, graph, options.borders->modules())) {
    if (step.kind == CallStep::Kind::kNode) {
      lower_node(*step.node);
      continue;
    }
    std::vector<std::string> names;
    std::vector<int32_t> crossing;
    std::vector<Var> vars = cross(step.values, names, crossing);
    if (step.kind == CallStep::Kind::kEnter) {
      options.borders->enter(b, step.module, names, vars);
      auto& saved = outer.emplace_back();
      for (int32_t v : crossing) saved.emplace_back(v, env[index(v)]);
    } else {
      options.borders->leave(b, step.module, names, vars);
      for (auto& [v, value] : outer.back()) env[index(v)] = std::move(value);
      outer.pop_back();
    }
    for (size_t i = 0; i < crossing.size(); ++i) env[index(crossing[i])] = vars[i];
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
    report(node, "memory",
           "the graph grows beyond " + std::to_string(kMaxSteps) +
               " operations when its loops are unrolled");
    poison_outputs(node);
    return;
  }
  for (int32_t v : node.inputs) {
    const int32_t w = v < 0 ? -1 : m.values[index(v)].weight;
    if (w < 0 || m.weights[index(w)].stored.unsupported.empty()) continue;
    report(node, "no_lowering",
           "input '" + m.values[index(v)].name + "' is a " +
               m.weights[index(w)].stored.unsupported + ", which trainrt does not compute with");
    poison_outputs(node);
    return;
  }

  const int32_t outer = b.source();
  b.set_source(result.graph.add_source({node.name, node.op, node.domain, node.opset}));
  for (int32_t v : node.outputs) {
    if (v >= 0) set(v, Var());
  }
  try {
    const std::unique_ptr<LowerContext> context = make_context(*this, node);
    if (const RegisteredGradient rule = find_gradient_rule(node.domain, node.op)) {
      lower_with_gradient(*context, node, rule);
    } else {
      node.row->lower(*context);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!context->wants(i)) continue;
      const int32_t v = node.outputs[i];
      if (is_absent(env[index(v)])) {
        throw LowerError{"no_lowering", "output " + std::to_string(i) + " ('" +
                                            m.values[index(v)].name + "') is not supported"};
      }
      name(env[index(v)], m.values[index(v)].name);
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
        throw Error(ErrorCode::kInternal,
                    "node '" + node.name + "' (" + node.op + "): " + e.what());
      case ErrorCode::kMemory:
        report(node, "memory", e.what());
        break;
      case ErrorCode::kUnsupported:
        report(node, "no_lowering", e.what());
        break;
      default:
        report(node, "invalid", e.what());
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

/// Gives the value's tensors a name for listings, unless they have one.
void Specializer::name(const NodeValue& value, const std::string& name) {
  auto give = [&](Var v, const std::string& text) {
    std::string& known = result.graph.value(v.id()).name;
    if (known.empty()) known = text;
  };
  if (const Var v = tensor_of(value)) give(v, name);
  if (const Sequence* entries = std::get_if<Sequence>(&value)) {
    for (size_t k = 0; k < entries->size(); ++k) give((*entries)[k], entry_name(name, k));
  }
}

std::vector<NodeValue> Specializer::subgraph(const ImportedGraph& graph,
                                             std::span<const NodeValue> inputs) {
  if (inputs.size() != graph.inputs.size()) {
    throw LowerError{"invalid", "subgraph '" + graph.name + "' has " +
                                    std::to_string(graph.inputs.size()) + " inputs, given " +
                                    std::to_string(inputs.size())};
  }
  if (++steps_ > kMaxSteps) throw LowerError{"memory", "its loops run too often to unroll"};
  entered_.insert(&graph);
  for (size_t i = 0; i < inputs.size(); ++i) set(graph.inputs[i], inputs[i]);
  lower_graph(graph);
  std::vector<NodeValue> outputs;
  for (int32_t value : graph.outputs) {
    if (is_poisoned(value)) throw Poisoned{};
    const int32_t w = m.values[index(value)].weight;
    if (w >= 0 && !m.weights[index(w)].stored.unsupported.empty()) {
      throw LowerError{"no_lowering", "output '" + m.values[index(value)].name + "' is a " +
                                          m.weights[index(w)].stored.unsupported};
    }
    outputs.push_back(get(value));
    if (is_absent(outputs.back())) {
      throw LowerError{"invalid", "output '" + m.values[index(value)].name + "' of subgraph '" +
                                      graph.name + "' has no value"};
    }
  }
  return outputs;
}

Specialized specialize_model(const ImportedModel& model,
                             const std::map<std::string, InputBinding>& inputs,
                             const SpecializeOptions& options, const Evaluator& evaluator,
                             Diagnostics& problems, const Contents& contents) {
  check_bindings(model, inputs);
  return Specializer(model, options, evaluator, problems, contents).run(inputs);
}

}  // namespace trainrt
