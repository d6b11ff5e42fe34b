#include "runtime/step_builder.h"

#include <algorithm>
#include <format>
#include <set>

#include "autodiff/autodiff.h"
#include "graph/graph_copy.h"
#include "graph/passes/passes.h"
#include "kernels/reference/evaluate.h"
#include "runtime/cost.h"
#include "runtime/quantization.h"

namespace trainrt {
namespace {

using NamedTypes = std::vector<std::pair<std::string, TensorType>>;

void run_passes(Graph& graph) {
  Pipeline pipeline;
  pipeline.add(make_simplify_pass(evaluate_node));
  pipeline.add(make_fold_pass(evaluate_node));
  pipeline.add(make_cse_pass());
  pipeline.add(make_dead_code_pass());
  pipeline.run(graph);
}

/// Nodes that compute a known pattern become one node, with a gradient of its own.
void raise_patterns(Graph& graph) {
  Pipeline pipeline;
  pipeline.add(make_raise_pass(evaluate_node));
  pipeline.add(make_raise_batch_norm_pass());
  pipeline.run(graph);
}

std::string list_of(const NamedTypes& outputs) {
  std::string text;
  for (const auto& [name, type] : outputs) {
    text += (text.empty() ? "" : ", ") + name + " " + to_string(type);
  }
  return text;
}

class StepBuilder {
 public:
  StepBuilder(const StepContext& context, const StepSpec& spec, const StepInputs& inputs,
              Diagnostics& problems)
      : context_(context), spec_(spec), inputs_(inputs), problems_(problems) {}

  StepGraph run() {
    SpecializeOptions options = context_.specialize;
    options.training = spec_.training;
    options.modes = spec_.modes;
    if (options.borders != nullptr) options.borders->begin();
    Specialized special = context_.model.specialize(inputs_.model, options, evaluate_node,
                                                    problems_, context_.contents);
    if (!special.needs_value.empty()) {
      result_.needs_value = std::move(special.needs_value);
      return std::move(result_);
    }
    result_.graph = std::move(special.graph);
    if (!problems_.empty()) {
      look_for_more_problems();
      return std::move(result_);
    }
    make_guard(special.decisions);
    stage("specialized");
    run_passes(result_.graph);
    raise_patterns(result_.graph);
    append();
    if (!problems_.empty()) return std::move(result_);
    run_passes(result_.graph);
    stage("joint");
    fuse_nodes();
    return std::move(result_);
  }

  StepGraph run_update(const NamedTypes& parameters) {
    Builder builder(graph(), evaluate_node);
    const UpdateSpec& update = *spec_.update;
    const bool reads_gradients = !update.groups.empty() || update.clip_norm;
    std::vector<UpdateTarget> targets;
    std::vector<Var> gradients;
    for (const auto& [name, type] : parameters) {
      Var parameter, gradient;
      if (!update.groups.empty() || update.ema) {
        parameter = builder.input({name, InputRole::kParameter, type.dtype, type.shape});
      }
      if (reads_gradients) {
        gradient = builder.input({"grad/" + name, InputRole::kGradient, type.dtype, type.shape});
        gradients.push_back(gradient);
      }
      targets.push_back({name, parameter, gradient});
    }
    if (!update.groups.empty()) {
      add_update_section(builder, targets);
    } else {
      if (update.clip_norm) {
        graph().add_output("norm", global_norm(builder, gradients).id(), OutputRole::kOutput);
        graph().add_output("scale", clip_scale(builder, gradients, *update.clip_norm).id(),
                           OutputRole::kOutput);
      }
      if (update.ema) add_averages(builder, targets, *update.ema);
    }
    run_passes(graph());
    fuse_nodes();
    return std::move(result_);
  }

 private:
  Graph& graph() { return result_.graph; }

  void stage(std::string_view name) {
    if (context_.on_stage) context_.on_stage(name, graph());
  }

  bool runs_fused(const std::string& program, std::span<const TensorType> in,
                  std::span<const TensorType> out) const {
    const Attrs attrs = FusedAttrs{program};
    const NodeView node{Op::kFused, attrs, in, out};
    for (const auto& list : context_.fused_kernels) {
      for (const KernelRow& row : list) {
        if (row.op == Op::kFused && (row.supports == nullptr || row.supports(node).ok)) return true;
      }
    }
    return false;
  }

  void fuse_nodes() {
    Pipeline pipeline;
    pipeline.add(make_pool_grad_pass());
    pipeline.add(make_epilogue_pass());
    pipeline.add(make_dead_code_pass());
    pipeline.run(graph());
    if (context_.memory_budget == 0 && context_.fused_kernels.empty()) return;
    const Graph joint = std::move(graph());
    const RowTable rows(context_.fused_kernels);
    const FinishGraph finish = [&](const RecomputeOptions& options, RecomputeReport* report) {
      return recompute_and_fuse(joint, options, report);
    };
    graph() = context_.memory_budget == 0
                  ? finish(default_recompute(rows), &result_.recomputed)
                  : recompute_within(context_.memory_budget, rows, joint, finish, context_.arena_of,
                                     &result_.recomputed);
    result_.recomputed_flops = graph_flops(graph()) - graph_flops(joint);
  }

  Graph recompute_and_fuse(Graph joint, const RecomputeOptions& options,
                           RecomputeReport* report) const {
    Pipeline pipeline;
    pipeline.add(make_recompute_pass(options, report));
    if (!context_.fused_kernels.empty()) {
      pipeline.add(make_fuse_pass(
          [&](const std::string& program, std::span<const TensorType> in,
              std::span<const TensorType> out) { return runs_fused(program, in, out); }));
    }
    pipeline.add(make_dead_code_pass());
    pipeline.run(joint);
    return joint;
  }

  void make_guard(std::vector<Decision>& decisions) {
    if (decisions.empty()) return;
    result_.guard = graph();
    result_.guard.outputs().clear();
    for (Decision& d : decisions) {
      result_.guard.add_output("decision" + std::to_string(result_.decided.size()), d.value);
      result_.decided.push_back(std::move(d.contents));
    }
    without_hooks(result_.guard);
    run_passes(result_.guard);
  }

  // Hooks see the run of the step only.
  static void without_hooks(Graph& graph) {
    const Graph old = std::move(graph);
    GraphCopy copy(old);
    for (const Node& node : old.nodes()) {
      if (node.op != Op::kHook) {
        copy.keep(node);
        continue;
      }
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        copy.map(node.outputs[i], copy.mapped(node.inputs[i]));
      }
    }
    graph = copy.finish();
  }

  // What lies between the nodes that could not be lowered may have no gradient either: the caller
  // wants the whole list at once.
  void look_for_more_problems() {
    if (spec_.seeds == Seeds::kNone) return;
    try {
      Builder builder(graph(), evaluate_node);
      std::vector<Seed> seeds;
      std::vector<Var> wrt;
      for (const Output& o : std::vector<Output>(graph().outputs())) {
        const Var y = builder.wrap(o.value);
        if (o.role == OutputRole::kOutput && is_float(y.dtype()))
          seeds.push_back({y, full_like(y, 1)});
      }
      for (NodeId id : graph().inputs(InputRole::kParameter)) {
        wrt.push_back(builder.wrap(graph().node(id).outputs[0]));
      }
      std::vector<ValueId> ends;
      for (const Seed& seed : seeds) ends.push_back(seed.value.id());
      report_quantized(ends);
      differentiate(builder, seeds, wrt, problems_);
    } catch (const Error&) {
      // The graph is incomplete: the problems found so far are what counts.
    }
  }

  void append() {
    Builder builder(graph(), evaluate_node);
    std::vector<std::pair<std::string, ValueId>> outputs;
    for (const Output& o : graph().outputs()) {
      if (o.role == OutputRole::kOutput) outputs.emplace_back(o.name, o.value);
    }
    Var loss;
    if (spec_.custom_loss != nullptr) {
      loss = build_custom_loss(*spec_.custom_loss, builder, outputs, inputs_.targets,
                               context_.specialize.working);
      graph().add_output("loss", loss.id(), OutputRole::kLoss);
    } else if (!spec_.losses.empty()) {
      loss = add_losses(builder, outputs);
    }
    if (spec_.seeds == Seeds::kNone) return;

    std::vector<Seed> seeds;
    std::vector<ValueId> ends;
    if (spec_.seeds == Seeds::kLoss) {
      TRAINRT_CHECK(static_cast<bool>(loss), "gradients of a loss that is not there");
      seeds.push_back({loss, builder.fill(loss.dtype(), 1, loss.shape())});
      ends.push_back(loss.id());
    } else {
      for (const auto& [name, value] : outputs) {
        const TensorType type = graph().type(value);
        if (!is_float(type.dtype) || !is_seed(name)) continue;
        seeds.push_back({builder.wrap(value), builder.input({"dy/" + name, InputRole::kGradient,
                                                             type.dtype, type.shape})});
        ends.push_back(value);
      }
    }

    report_quantized(ends);
    const std::vector<std::pair<std::string, ValueId>> wanted = trained_values(ends);
    std::vector<Var> wrt;
    for (const auto& [name, value] : wanted) wrt.push_back(builder.wrap(value));
    std::vector<Var> gradients = differentiate(builder, seeds, wrt, problems_);
    if (!problems_.empty()) return;

    std::vector<UpdateTarget> targets;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!gradients[i]) continue;
      const bool is_parameter = i < parameter_count_;
      if (is_parameter) result_.trainable.push_back(wanted[i].first);
      if (is_parameter && spec_.update) {
        targets.push_back({wanted[i].first, wrt[i], gradients[i]});
      } else {
        graph().add_output(wanted[i].first, gradients[i].id(), OutputRole::kGradient);
      }
    }
    if (spec_.update) add_update_section(builder, targets);
  }

  bool is_seed(const std::string& output) const {
    const auto& list = spec_.seed_outputs;
    return list.empty() || std::find(list.begin(), list.end(), output) != list.end();
  }

  Var add_losses(Builder& builder, const std::vector<std::pair<std::string, ValueId>>& outputs) {
    NamedTypes types;
    for (const auto& [name, value] : outputs) types.emplace_back(name, graph().type(value));
    result_.terms = bind_losses(spec_.losses, types, [&](const std::string& name) {
      return inputs_.targets.contains(name);
    });
    std::map<std::string, Var> targets;
    Var total;
    for (const LossTerm& term : result_.terms) {
      Var target;
      if (!term.target.empty()) {
        const DType dtype =
            target_is_class_ids(term.spec.kind) ? DType::kInt64 : term.output_type.dtype;
        Var& made = targets[term.target];
        if (!made) {
          made = builder.input(
              {term.target, InputRole::kTarget, dtype, inputs_.targets.at(term.target).shape});
        } else if (made.dtype() != dtype) {
          throw Error(ErrorCode::kUsage, "'" + term.target +
                                             "' cannot hold both class ids and values: the losses "
                                             "on it need outputs, and targets, of their own");
        }
        target = made;
      }
      const auto at = std::find_if(outputs.begin(), outputs.end(),
                                   [&](const auto& o) { return o.first == term.output; });
      LossSpec named = term.spec;
      named.output = term.output;
      const Var value = build_loss(named, builder.wrap(at->second), target);
      total = total ? total + value : value;
    }
    graph().add_output("loss", total.id(), OutputRole::kLoss);
    return total;
  }

  std::vector<std::pair<std::string, ValueId>> wanted_parameters() {
    std::vector<std::pair<std::string, ValueId>> result;
    if (!spec_.parameter_grads) return result;
    std::map<std::string_view, ValueId> inputs;
    for (NodeId id : graph().inputs(InputRole::kParameter)) {
      const Node& node = graph().node(id);
      inputs.emplace(std::get<InputAttrs>(node.attrs).name, node.outputs[0]);
    }
    const std::map<std::string_view, size_t> groups = group_of();
    const bool grouped = spec_.update && !spec_.update->groups.empty();
    for (const WeightInfo& w : context_.model.parameters()) {
      const auto found = inputs.find(w.name);
      if (found == inputs.end() || !context_.wants_grad(w.name)) continue;
      if (grouped && !groups.contains(w.name)) continue;
      result.emplace_back(w.name, found->second);
    }
    return result;
  }

  void report_quantized(const std::vector<ValueId>& ends) {
    std::vector<ValueId> parameters;
    for (const auto& [name, value] : wanted_parameters()) parameters.push_back(value);
    report_quantization(graph(), ends, parameters, context_.specialize.straight_through, problems_);
  }

  // Parameters first, then float inputs.
  std::vector<std::pair<std::string, ValueId>> trained_values(const std::vector<ValueId>& ends) {
    std::vector<std::pair<std::string, ValueId>> candidates = wanted_parameters(), result;
    const size_t parameters = candidates.size();
    if (spec_.input_grads) {
      for (NodeId id : graph().inputs(InputRole::kData)) {
        const auto& attrs = std::get<InputAttrs>(graph().node(id).attrs);
        if (is_float(attrs.dtype)) candidates.emplace_back(attrs.name, graph().node(id).outputs[0]);
      }
    }
    std::vector<ValueId> values;
    for (const auto& candidate : candidates) values.push_back(candidate.second);
    const std::vector<bool> depends = depends_differentiably(graph(), ends, values);
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (!depends[i]) continue;
      if (i < parameters) ++parameter_count_;
      result.push_back(candidates[i]);
    }
    return result;
  }

  std::map<std::string_view, size_t> group_of() const {
    std::map<std::string_view, size_t> groups;
    if (!spec_.update) return groups;
    for (size_t i = 0; i < spec_.update->groups.size(); ++i) {
      for (const std::string& name : spec_.update->groups[i].parameters) groups.emplace(name, i);
    }
    return groups;
  }

  void add_optimizers(Builder& builder, const std::vector<UpdateTarget>& targets, Var scale) {
    const UpdateSpec& update = *spec_.update;
    auto add = [&](const std::string& name, const OptimizerAttrs& optimizer,
                   const std::vector<UpdateTarget>& part) {
      auto& names = result_.updated.emplace_back();
      for (const UpdateTarget& t : part) names.push_back(t.name);
      if (part.empty()) return;
      const Var hyper = builder.input({name, InputRole::kHyper, DType::kFloat64, {2}});
      add_updates(builder, optimizer, part, hyper, scale);
    };
    if (update.groups.empty()) return add("hyper", update.optimizer, targets);
    const std::map<std::string_view, size_t> groups = group_of();
    std::vector<std::vector<UpdateTarget>> parts(update.groups.size());
    for (const UpdateTarget& t : targets) parts[groups.at(t.name)].push_back(t);
    for (size_t i = 0; i < parts.size(); ++i) {
      add("hyper/" + std::to_string(i), update.groups[i].optimizer, parts[i]);
    }
  }

  void add_update_section(Builder& builder, std::vector<UpdateTarget>& targets) {
    const UpdateSpec& update = *spec_.update;
    if (targets.empty()) return;
    if (update.accumulate > 1) {
      for (UpdateTarget& t : targets) {
        builder.set_section(Section::kBackward);
        const TensorType type = t.gradient.type();
        const Var store =
            builder.input({"acc/" + t.name, InputRole::kGradient, type.dtype, type.shape});
        const Var sum = builder.add(Op::kAssignAdd, {store, t.gradient});
        graph().add_output("acc/" + t.name, sum.id(), OutputRole::kState);
        builder.set_section(Section::kUpdate);
        t.gradient = sum * (1.0 / static_cast<double>(update.accumulate));
      }
    }
    builder.set_section(Section::kUpdate);
    if (update.clip_value) {
      for (UpdateTarget& t : targets)
        t.gradient = clip(t.gradient, -*update.clip_value, *update.clip_value);
    }
    Var scale;
    if (update.clip_norm) {
      std::vector<Var> gradients;
      for (const UpdateTarget& t : targets) gradients.push_back(t.gradient);
      scale = clip_scale(builder, gradients, *update.clip_norm);
    }
    add_optimizers(builder, targets, scale);
    if (update.ema) add_averages(builder, targets, *update.ema);
    builder.set_section(Section::kForward);
  }

  // average = decay average + (1 - decay) parameter, after the parameter's update if it has one.
  void add_averages(Builder& builder, const std::vector<UpdateTarget>& targets, double decay) {
    std::map<ValueId, ValueId> updated;
    for (const Node& node : graph().nodes()) {
      if (node.op == Op::kOptimizerUpdate) updated[node.inputs[0]] = node.outputs[0];
    }
    builder.set_section(Section::kUpdate);
    for (const UpdateTarget& t : targets) {
      const TensorType type = t.parameter.type();
      const Var average =
          builder.input({"ema/" + t.name, InputRole::kOptimizerState, type.dtype, type.shape});
      const auto after = updated.find(t.parameter.id());
      const Var parameter = after != updated.end() ? builder.wrap(after->second) : t.parameter;
      const Var next =
          builder.add(Op::kAssign, {average, average * decay + parameter * (1.0 - decay)});
      graph().add_output("ema/" + t.name, next.id(), OutputRole::kState);
    }
  }

  const StepContext& context_;
  const StepSpec& spec_;
  const StepInputs& inputs_;
  Diagnostics& problems_;
  StepGraph result_;
  size_t parameter_count_ = 0;
};

void append_number(std::string& key, std::string_view name, const std::optional<double>& value) {
  if (value) key += std::format("{}{};", name, *value);
}

}  // namespace

std::string StepSpec::key() const {
  std::string key = training ? "train;" : "eval;";
  for (const auto& [path, mode] : modes) key += path + (mode ? "=train;" : "=eval;");
  for (const LossSpec& loss : losses) {
    key +=
        std::format("loss {}:{}*{},{},{};", loss_name(loss.kind), loss.output, loss.weight,
                    loss.label_smoothing, loss.class_axis ? std::to_string(*loss.class_axis) : "-");
  }
  if (custom_loss != nullptr) key += std::format("custom loss {};", custom_loss->number);
  key += "seeds " + std::to_string(static_cast<int>(seeds)) + (parameter_grads ? "p" : "") +
         (input_grads ? "i" : "") + (sections ? "s" : "") + ";";
  for (const std::string& name : seed_outputs) key += "seed " + name + ";";
  if (update) {
    auto name = [](const OptimizerAttrs& optimizer) {
      return std::string(optimizer_name(optimizer.kind)) + " " + to_string(Attrs(optimizer));
    };
    if (update->groups.empty()) key += name(update->optimizer);
    for (const UpdateGroup& group : update->groups) {
      key += "group " + name(group.optimizer) + " r" + std::to_string(group.rate) + ":";
      for (const std::string& parameter : group.parameters) key += parameter + ",";
    }
    key += " n" + std::to_string(update->accumulate) + ";";
    append_number(key, "clip_norm", update->clip_norm);
    append_number(key, "clip_value", update->clip_value);
    append_number(key, "ema", update->ema);
  }
  return key;
}

std::vector<LossTerm> bind_losses(const std::vector<LossSpec>& losses, const NamedTypes& outputs,
                                  const std::function<bool(const std::string&)>& has_target) {
  std::vector<LossTerm> terms;
  for (const LossSpec& spec : losses) {
    const size_t before = terms.size();
    for (const auto& [name, type] : outputs) {
      const bool wanted = spec.output.empty() ? is_float(type.dtype) : name == spec.output;
      if (!wanted) continue;
      terms.push_back({spec, name, "", type});
      if (needs_target(spec.kind) || !spec.output.empty()) break;
    }
    if (terms.size() == before) {
      throw Error(ErrorCode::kUsage,
                  "loss " + std::string(loss_name(spec.kind)) + ": the model has no " +
                      (spec.output.empty() ? "float output" : "output '" + spec.output + "'") +
                      "; its outputs are " + list_of(outputs));
    }
  }
  std::set<std::string> compared;
  for (const LossTerm& t : terms) {
    if (needs_target(t.spec.kind)) compared.insert(t.output);
  }
  for (LossTerm& t : terms) {
    if (!needs_target(t.spec.kind)) continue;
    const std::string own = "target/" + t.output;
    if (has_target(own)) {
      t.target = own;
    } else if (compared.size() == 1 && has_target("target")) {
      t.target = "target";
    } else {
      throw Error(ErrorCode::kInput, "loss " + std::string(loss_name(t.spec.kind)) + " of output " +
                                         t.output + " needs a target: the batch has no '" + own +
                                         "'" + (compared.size() == 1 ? " or 'target'" : ""));
    }
  }
  return terms;
}

StepGraph build_step(const StepContext& context, const StepSpec& spec, const StepInputs& inputs,
                     Diagnostics& problems) {
  return StepBuilder(context, spec, inputs, problems).run();
}

StepGraph build_update(const StepContext& context, const UpdateSpec& update,
                       const NamedTypes& parameters) {
  StepSpec spec;
  spec.update = update;
  const StepInputs inputs;
  Diagnostics problems;
  return StepBuilder(context, spec, inputs, problems).run_update(parameters);
}

}  // namespace trainrt
