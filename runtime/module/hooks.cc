#include "runtime/module/hooks.h"

#include <algorithm>
#include <cstring>

namespace trainrt {
namespace {

using Named = std::vector<std::pair<std::string, Tensor>>;

Named copies(const std::vector<std::string>& names, std::span<const Tensor> values) {
  Named named;
  for (size_t i = 0; i < names.size(); ++i) {
    named.emplace_back(names[i], values[i].defined() ? values[i].clone() : Tensor());
  }
  return named;
}

/// Puts what a hook returned in the place of what it saw.
void replace(Named& values, const HookResult& given, const std::string& who) {
  if (!given) return;
  if (given->size() > values.size()) {
    throw Error(ErrorCode::kInput, who + " returned " + std::to_string(given->size()) +
                                       " tensors for " + std::to_string(values.size()));
  }
  for (size_t i = 0; i < given->size(); ++i) {
    const Tensor& value = (*given)[i];
    if (!value.defined()) continue;
    Tensor& old = values[i].second;
    const auto type = [](const Tensor& t) {
      return t.defined() ? to_string(TensorType{t.dtype(), t.shape()}) : "nothing";
    };
    if (!old.defined() || value.dtype() != old.dtype() || value.shape() != old.shape()) {
      throw Error(ErrorCode::kInput, who + " returned " + type(value) + " for '" + values[i].first +
                                         "', which is " + type(old));
    }
    old = value.clone();
  }
}

/// Writes values that hooks replaced into the node's results; `number` gives the place of each.
void put_back(const Named& values, const std::vector<size_t>& number, std::span<Tensor> outputs) {
  for (size_t k = 0; k < number.size(); ++k) outputs[k].copy_from(values[number[k]].second);
}

TensorMap by_name(const Values& values) {
  TensorMap map;
  for (const auto& [name, value] : values) {
    if (value.defined()) map[name] = value;
  }
  return map;
}

std::string who(const char* kind, const std::string& path) {
  return std::string(kind) + " of " + (path.empty() ? "the model" : "'" + path + "'");
}

void run_pre(HookTable& table, const std::string& path, Named& args) {
  table.run(path, &ModuleHooks::forward_pre, [&](Module& module, const auto& hook) {
    const Values seen(args);
    replace(args, hook.call(module, seen, by_name(seen)), who("a forward pre-hook", path));
  });
}

void run_backward_pre(HookTable& table, const std::string& path, Named& gradients) {
  table.run(path, &ModuleHooks::backward_pre, [&](Module& module, const auto& hook) {
    replace(gradients, hook.call(module, Values(gradients)), who("a backward pre-hook", path));
  });
}

void run_backward(HookTable& table, const std::string& path, Named& grad_inputs,
                  const Named& grad_outputs) {
  table.run(path, &ModuleHooks::backward, [&](Module& module, const auto& hook) {
    replace(grad_inputs, hook.call(module, Values(grad_inputs), Values(grad_outputs)),
            who("a backward hook", path));
  });
}

}  // namespace

void HookTable::unwind() {
  const std::vector<Call> open = std::exchange(calls, {});
  for (auto call = open.rbegin(); call != open.rend(); ++call) {
    run(call->path, &ModuleHooks::forward, [&](Module& module, const auto& hook) {
      const auto& called = call->called;
      if (!hook.always || std::find(called.begin(), called.end(), hook.id) != called.end()) return;
      try {
        hook.call(module, call->args, by_name(call->args), Values());
      } catch (const std::exception&) {
        // The error that stopped the forward is the one to be told.
      }
    });
  }
}

/// A call of a module in the graph that is being built.
struct HookBorders::Call {
  std::string path;
  std::vector<std::string> input_names, output_names;
  std::vector<Var> inputs;
  std::vector<Var> grad_outputs;  // of the outputs numbered in `grad_numbers`
  std::vector<size_t> grad_numbers;
  bool told = false;  // the backward hooks are called where the gradients of the outputs arrive
};

std::string HookBorders::key() const {
  std::string key;
  for (const auto& [path, hooks] : table_->modules) {
    if (!hooks.in_graph()) continue;
    const bool back = !hooks.backward_pre.empty() || !hooks.backward.empty();
    key += "hook " + path + (back ? "/b;" : ";");
  }
  return key;
}

void HookBorders::begin() {
  open_.clear();
  paths_.clear();
  for (const auto& [path, hooks] : table_->modules) {
    if (hooks.in_graph()) paths_.push_back(path);
  }
}

namespace {

std::vector<Var> add_hook(Builder& b, int64_t function, const std::vector<Var>& passed,
                          const std::vector<Var>& shown) {
  std::vector<Var> operands = passed;
  operands.insert(operands.end(), shown.begin(), shown.end());
  std::vector<TensorType> types;
  for (Var v : passed) types.push_back(v.type());
  return b.add_all(Op::kHook, operands, call_attrs(function, types));
}

using Gradient = std::function<std::vector<Var>(const CallGradient&)>;

std::vector<Var> pass_on(const CallGradient& g) {
  return {g.output_gradients.begin(), g.output_gradients.end()};
}

std::vector<size_t> first_numbers(size_t n) {
  std::vector<size_t> numbers(n);
  for (size_t i = 0; i < n; ++i) numbers[i] = i;
  return numbers;
}

/// `count` values, those numbered given, the others undefined.
Named sparse(const std::vector<std::string>& names, const std::vector<size_t>& numbers,
             std::span<const Tensor> given) {
  Named values;
  for (const std::string& name : names) values.emplace_back(name, Tensor());
  for (size_t k = 0; k < numbers.size(); ++k) values[numbers[k]].second = given[k].clone();
  return values;
}

}  // namespace

void HookBorders::enter(Builder& b, const std::string& module,
                        const std::vector<std::string>& names, std::vector<Var>& inputs) {
  const auto call = std::make_shared<Call>();
  call->path = module;
  call->input_names = names;
  open_.push_back(call);
  if (inputs.empty()) return;
  const auto run = [table = table_, module, names](const CallRun& r) {
    Named args = copies(names, r.inputs);
    run_pre(*table, module, args);
    put_back(args, first_numbers(args.size()), r.outputs);
    table->calls.push_back({module, Values(std::move(args)), {}});
  };
  const auto gradient = [table = table_, call](const CallGradient& g) {
    std::vector<Var> passed, result(g.inputs.size());
    std::vector<size_t> numbers;
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      if (!g.output_gradients[i] || !g.needed[i]) continue;
      passed.push_back(g.output_gradients[i]);
      numbers.push_back(i);
    }
    std::vector<Var> out = passed;
    if (!call->told && !passed.empty()) {
      const auto run_back = [table, path = call->path, inputs_of = call->input_names,
                             outputs_of = call->output_names, numbers,
                             grad_numbers = call->grad_numbers](const CallRun& r) {
        Named grad_inputs = sparse(inputs_of, numbers, r.inputs);
        run_backward(*table, path, grad_inputs,
                     sparse(outputs_of, grad_numbers, r.inputs.subspan(numbers.size())));
        put_back(grad_inputs, numbers, r.outputs);
      };
      out = add_hook(g.b, add_call({"backward hook", run_back, {}}), passed, call->grad_outputs);
    }
    for (size_t k = 0; k < numbers.size(); ++k) result[numbers[k]] = out[k];
    return result;
  };
  const bool back = !table_->now(module, &ModuleHooks::backward).empty();
  inputs = add_hook(b, add_call({"forward pre-hook", run, back ? Gradient(gradient) : pass_on}),
                    inputs, {});
  call->inputs = inputs;
}

void HookBorders::leave(Builder& b, const std::string& module,
                        const std::vector<std::string>& names, std::vector<Var>& outputs) {
  const std::shared_ptr<Call> call = open_.back();
  open_.pop_back();
  call->output_names = names;
  if (outputs.empty()) return;
  const size_t count = outputs.size();
  const auto run = [table = table_, call, count](const CallRun& r) {
    if (call->input_names.empty()) {
      Named none;
      run_pre(*table, call->path, none);
      table->calls.push_back({call->path, Values(), {}});
    }
    Named values = copies(call->output_names, r.inputs.first(count));
    table->run(call->path, &ModuleHooks::forward, [&](Module& owner, const auto& hook) {
      HookTable::Call& open = table->calls.back();
      open.called.push_back(hook.id);
      const Values args = open.args;
      replace(values, hook.call(owner, args, by_name(args), Values(values)),
              who("a forward hook", call->path));
    });
    put_back(values, first_numbers(count), r.outputs);
    table->calls.pop_back();
  };
  const auto gradient = [table = table_, call, count](const CallGradient& g) {
    std::vector<Var> passed, result(count);
    std::vector<size_t> numbers;
    for (size_t i = 0; i < count; ++i) {
      if (!g.output_gradients[i]) continue;
      passed.push_back(g.output_gradients[i]);
      numbers.push_back(i);
    }
    // Nobody asks for the gradients of the inputs: their node will not be reached.
    call->told = std::none_of(g.needed.begin() + static_cast<std::ptrdiff_t>(count), g.needed.end(),
                              [](bool needed) { return needed; });
    const auto run_back = [table, path = call->path, inputs_of = call->input_names,
                           outputs_of = call->output_names, numbers,
                           told = call->told](const CallRun& r) {
      Named gradients = sparse(outputs_of, numbers, r.inputs);
      run_backward_pre(*table, path, gradients);
      if (told) {
        Named none = sparse(inputs_of, {}, {});
        run_backward(*table, path, none, gradients);
      }
      put_back(gradients, numbers, r.outputs);
    };
    const std::vector<Var> out =
        add_hook(g.b, add_call({"backward pre-hook", run_back, {}}), passed, {});
    call->grad_outputs = out;
    call->grad_numbers = numbers;
    for (size_t k = 0; k < numbers.size(); ++k) result[numbers[k]] = out[k];
    return result;
  };
  const bool back = !table_->now(module, &ModuleHooks::backward).empty() ||
                    !table_->now(module, &ModuleHooks::backward_pre).empty();
  outputs = add_hook(b, add_call({"forward hook", run, back ? Gradient(gradient) : pass_on}),
                     outputs, call->inputs);
}

}  // namespace trainrt
