#include "autodiff/optimizer.h"

#include <array>
#include <charconv>
#include <cmath>

namespace trainrt {
namespace {

struct OptimizerInfo {
  OptimizerKind kind;
  std::string_view name;
  double learning_rate, weight_decay;
};

constexpr std::array<OptimizerInfo, 5> kOptimizers = {{
    {OptimizerKind::kSgd, "sgd", 1e-2, 0},
    {OptimizerKind::kMomentum, "momentum", 1e-2, 0},
    {OptimizerKind::kNesterov, "nesterov", 1e-2, 0},
    {OptimizerKind::kAdam, "adam", 1e-3, 0},
    {OptimizerKind::kAdamW, "adamw", 1e-3, 1e-2},
}};

const OptimizerInfo& info_of(OptimizerKind kind) {
  for (const OptimizerInfo& info : kOptimizers) {
    if (info.kind == kind) return info;
  }
  throw Error(ErrorCode::kInternal, "unknown optimizer kind");
}

[[noreturn]] void usage(const std::string& text, const std::string& what) {
  throw Error(ErrorCode::kUsage, "optimizer '" + text + "': " + what);
}

template <typename List>
std::string names(const List& list) {
  std::string text;
  for (const auto& entry : list) text += (text.empty() ? "" : ", ") + std::string(entry.name);
  return text;
}

void set_key(const std::string& text, const std::string& pair, OptimizerAttrs& attrs, double* lr) {
  const size_t equals = pair.find('=');
  if (equals == std::string::npos) usage(text, "'" + pair + "' is not of the form key=value");
  const std::string name = pair.substr(0, equals), value = pair.substr(equals + 1);
  double ignored = 0;
  const std::vector<OptimizerKey> keys = optimizer_keys(attrs, lr != nullptr ? lr : &ignored);
  for (const OptimizerKey& key : keys) {
    if (key.name != name) continue;
    double number = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || stop != value.data() + value.size() || !key.takes(number)) {
      usage(text, name + " must be " + key.rule() + ", not '" + value + "'");
    }
    *key.value = number;
    return;
  }
  usage(text, "there is no key '" + name + "'; known: " + names(keys));
}

class UpdateSection {
 public:
  explicit UpdateSection(Builder& builder) : builder_(builder), section_(builder.section()) {
    builder.set_section(Section::kUpdate);
  }
  ~UpdateSection() { builder_.set_section(section_); }
  UpdateSection(const UpdateSection&) = delete;
  UpdateSection& operator=(const UpdateSection&) = delete;

 private:
  Builder& builder_;
  Section section_;
};

}  // namespace

std::string OptimizerKey::rule() const {
  return std::string("a number of 0 or more") + (below == 1 ? " and below 1" : "");
}

std::vector<OptimizerKey> optimizer_keys(OptimizerAttrs& attrs, double* lr) {
  std::vector<OptimizerKey> keys = {{"lr", lr, INFINITY},
                                    {"weight_decay", &attrs.weight_decay, INFINITY}};
  switch (attrs.kind) {
    case OptimizerKind::kSgd:
      break;
    case OptimizerKind::kMomentum:
      keys.push_back({"dampening", &attrs.dampening, INFINITY});
      [[fallthrough]];
    case OptimizerKind::kNesterov:  // PyTorch allows no dampening here
      keys.push_back({"momentum", &attrs.momentum, INFINITY});
      break;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      keys.push_back({"beta1", &attrs.beta1, 1});
      keys.push_back({"beta2", &attrs.beta2, 1});
      keys.push_back({"eps", &attrs.epsilon, INFINITY});
      break;
  }
  return keys;
}

OptimizerAttrs parse_optimizer(const std::string& text, double* lr) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  OptimizerAttrs attrs;
  bool found = false;
  for (const OptimizerInfo& info : kOptimizers) {
    if (info.name != name) continue;
    attrs.kind = info.kind;
    attrs.weight_decay = info.weight_decay;
    found = true;
  }
  if (!found) usage(text, "there is no optimizer '" + name + "'; known: " + names(kOptimizers));
  if (colon == std::string::npos) return attrs;
  for (size_t begin = colon + 1; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    set_key(text, text.substr(begin, comma - begin), attrs, lr);
    begin = comma + 1;
  }
  return attrs;
}

std::string_view optimizer_name(OptimizerKind kind) { return info_of(kind).name; }

double default_learning_rate(OptimizerKind kind) { return info_of(kind).learning_rate; }

double default_weight_decay(OptimizerKind kind) { return info_of(kind).weight_decay; }

void add_updates(Builder& builder, const OptimizerAttrs& attrs, std::vector<UpdateTarget> targets,
                 Var hyper, Var scale) {
  const UpdateSection section(builder);
  const std::vector<std::string> slots = optimizer_slots(attrs.kind);
  for (const UpdateTarget& target : targets) {
    const TensorType type = target.parameter.type();
    std::vector<std::string> state_names = {target.name};
    std::vector<Var> operands = {target.parameter, target.gradient, hyper,
                                 scale ? scale : builder.fill(type.dtype, 1)};
    for (const std::string& slot : slots) {
      state_names.push_back(slot + "/" + target.name);
      operands.push_back(
          builder.input({state_names.back(), InputRole::kOptimizerState, type.dtype, type.shape}));
    }
    const std::vector<Var> updated = builder.add_all(Op::kOptimizerUpdate, operands, attrs);
    for (size_t i = 0; i < updated.size(); ++i) {
      builder.graph().add_output(state_names[i], updated[i].id(), OutputRole::kState);
    }
  }
}

Var global_norm(Builder& builder, std::span<const Var> gradients) {
  const UpdateSection section(builder);
  Var sum;
  for (Var g : gradients) {
    const Var squares = reduce_sum(square(g), all_axes(g));
    sum = sum ? sum + squares : squares;
  }
  return sum ? sqrt(sum) : Var();
}

Var clip_scale(Builder& builder, std::span<const Var> gradients, double max_norm) {
  if (gradients.empty()) return Var();
  const UpdateSection section(builder);
  const Var norm = global_norm(builder, gradients);
  return minimum(builder.fill(norm.dtype(), 1), max_norm / (norm + 1e-6));
}

}  // namespace trainrt
