#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include "autodiff/optimizer.h"
#include "runtime/module/state.h"
#include "runtime/train/trainer_impl.h"

namespace trainrt {
namespace {

const std::string& text_of(const Checkpoint& checkpoint, const std::string& name) {
  const auto it = checkpoint.text.find(name);
  if (it == checkpoint.text.end()) {
    throw Error(ErrorCode::kFile, "it has no entry '" + name + "'");
  }
  return it->second;
}

int64_t count_of(const Checkpoint& checkpoint, const std::string& name) {
  const int64_t n = checkpoint.number(name);
  if (n < 0) throw Error(ErrorCode::kFile, "its entry '" + name + "' is negative");
  return n;
}

// One optimizer for each kind of moments.
constexpr OptimizerKind kMoments[] = {OptimizerKind::kMomentum, OptimizerKind::kAdam};

std::string slot_of(OptimizerKind kind) { return optimizer_slots(kind)[0]; }

// The numbers of updates that moments have seen, a line "COUNT PARAMETER" for each. Empty when all
// have seen `usual`.
std::string update_counts(Session& session, OptimizerKind kind, int64_t usual) {
  std::string text;
  bool all = true;
  for (const auto& p : session.parameters()) {
    if (!session.optimizer_state().contains(slot_of(kind) + "/" + p->info.name)) continue;
    const int64_t count = *updates_of(*p, kind);
    all &= count == usual;
    text += std::to_string(count) + " " + p->info.name + "\n";
  }
  return all ? "" : text;
}

// What update_counts() wrote.
std::map<std::string, int64_t> read_counts(const Checkpoint& checkpoint, OptimizerKind kind,
                                           int64_t usual) {
  std::map<std::string, int64_t> counts;
  const auto entry = checkpoint.text.find("updates/" + slot_of(kind));
  if (entry == checkpoint.text.end()) {
    const std::string prefix = "optimizer/" + slot_of(kind) + "/";
    for (const auto& [name, value] : checkpoint.tensors) {
      if (name.starts_with(prefix)) counts[name.substr(prefix.size())] = usual;
    }
    return counts;
  }
  std::istringstream lines(entry->second);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = std::min(line.find(' '), line.size());
    int64_t count = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + space, count);
    if (space == line.size() || error != std::errc() || stop != line.data() + space || count < 0) {
      throw Error(ErrorCode::kFile, "its entry '" + entry->first + "' has the line '" + line + "'");
    }
    counts[line.substr(space + 1)] = count;
  }
  return counts;
}

// Entries of a store under a prefix, each held against the parameter it belongs to. The name behind
// the last matching slash is the parameter's: moments are called "SLOT/PARAMETER".
std::vector<std::pair<std::string, Tensor>> entries_of(const Checkpoint& checkpoint,
                                                       const Session& session,
                                                       const std::string& prefix) {
  std::vector<std::pair<std::string, Tensor>> entries;
  for (const auto& [full, value] : checkpoint.tensors) {
    if (!full.starts_with(prefix)) continue;
    const std::string name = full.substr(prefix.size());
    const size_t slash = name.find('/');
    const auto parameter =
        session.find_parameter(slash == std::string::npos ? name : name.substr(slash + 1));
    if (parameter == nullptr) {
      throw Error(ErrorCode::kInput, "'" + full + "' belongs to no parameter of the model");
    }
    if (value.dtype() != parameter->value().dtype() ||
        value.shape() != parameter->value().shape()) {
      throw Error(
          ErrorCode::kInput,
          "'" + full + "': expected " +
              to_string(TensorType{parameter->value().dtype(), parameter->value().shape()}) +
              ", found " + to_string(TensorType{value.dtype(), value.shape()}));
    }
    entries.emplace_back(name, value);
  }
  return entries;
}

void fill_store(Store& store, const std::vector<std::pair<std::string, Tensor>>& entries) {
  std::vector<StoreEntry> types;
  for (const auto& [name, value] : entries) types.push_back({name, {value.dtype(), value.shape()}});
  store.add(types);
  store.zero();
  for (const auto& [name, value] : entries) store.find(name).copy_from(value);
}

}  // namespace

std::string Trainer::Impl::digest() const {
  const ModuleOptions& options = session->options();
  // The number of a custom loss is this process's own.
  StepSpec spec = train_spec();
  spec.custom_loss = nullptr;
  std::string text = spec.key() + (custom_loss != nullptr ? "custom loss;" : "") + "bn " +
                     std::to_string(static_cast<int>(options.batch_norm)) +
                     (options.dropout ? ";" : ";no dropout;") +
                     (options.straight_through ? "straight through;" : "") +
                     (options.tie_weights ? "tied;" : "") +
                     (options.precision == Precision::kBFloat16 ? "bf16;" : "");
  for (const auto& p : session->parameters()) {
    if (!p->requires_grad) text += "frozen " + p->info.name + ";";
  }
  return text;
}

int64_t Trainer::Impl::usual_count(OptimizerKind moments, int64_t done) const {
  const std::vector<std::string> own = optimizer_slots(update.optimizer.kind);
  return own == optimizer_slots(moments) ? done : 0;
}

Checkpoint Trainer::Impl::checkpoint() const {
  Checkpoint c;
  c.text = {{"kind", "trainer"},
            {"working", std::string(dtype_name(session->working()))},
            {"options", digest()},
            {"step", std::to_string(steps)},
            {"micro_step", std::to_string(micro_step)},
            {"seed", std::to_string(static_cast<int64_t>(session->seed()))},
            {"rng_step", std::to_string(static_cast<int64_t>(session->rng_step()))},
            {"epoch", std::to_string(position.epoch)},
            {"batch", std::to_string(position.batch)},
            {"extra", position.extra}};
  add_weights(*session, c);
  auto add = [&](const char* prefix, const Store& store) {
    for (size_t i = 0; i < store.size(); ++i) {
      c.tensors.emplace_back(prefix + store.names()[i], store.at(i));
    }
  };
  add("optimizer/", session->optimizer_state());
  for (const OptimizerKind kind : kMoments) {
    const std::string counts = update_counts(*session, kind, usual_count(kind, steps));
    if (!counts.empty()) c.text["updates/" + slot_of(kind)] = counts;
  }
  if (micro_step > 0) add("gradient/", session->gradient_stores());
  return c;
}

void Trainer::Impl::restore(const Checkpoint& c) {
  if (text_of(c, "kind") != "trainer") {
    throw Error(ErrorCode::kInput,
                "it holds weights only, no state of a training run: load it into the module");
  }
  const std::string working(dtype_name(session->working()));
  if (text_of(c, "working") != working) {
    throw Error(ErrorCode::kInput, "it was made with working type " + text_of(c, "working") +
                                       ", this run uses " + working);
  }
  if (text_of(c, "options") != digest()) {
    throw Error(ErrorCode::kInput, "it was made with other options: expected \"" + digest() +
                                       "\", found \"" + text_of(c, "options") + "\"");
  }
  const int64_t new_steps = count_of(c, "step"), new_micro = count_of(c, "micro_step");
  const int64_t seed = c.number("seed"), rng_step = c.number("rng_step");
  Position place{count_of(c, "epoch"), count_of(c, "batch"), text_of(c, "extra")};
  if (new_micro >= std::max<int64_t>(update.accumulate, 1)) {
    throw Error(ErrorCode::kFile, "its entry 'micro_step' is too large");
  }
  const auto moments = entries_of(c, *session, "optimizer/");
  const auto gradients = entries_of(c, *session, "gradient/");
  std::map<OptimizerKind, std::map<std::string, int64_t>> counts;
  for (const OptimizerKind kind : kMoments) {
    counts[kind] = read_counts(c, kind, usual_count(kind, new_steps));
  }
  load_state_dict(*session, weights_of(c), true);
  load_extra_states(*session, c);

  // Everything fits: from here on nothing can fail but memory.
  fill_store(session->optimizer_state(), moments);
  fill_store(session->gradient_stores(), gradients);
  Store& state = session->optimizer_state();
  for (const auto& p : session->parameters()) {
    Tensor average = state.find("ema/" + p->info.name);
    if (average.defined() && !c.find("optimizer/ema/" + p->info.name).defined()) {
      average.copy_from(p->value().to(average.dtype()));
    }
  }
  for (const auto& p : session->parameters()) {
    for (const auto& [kind, numbers] : counts) {
      const auto count = numbers.find(p->info.name);
      *updates_of(*p, kind) = count != numbers.end() ? count->second : 0;
    }
  }
  steps = new_steps;
  micro_step = new_micro;
  position = std::move(place);
  session->set_seed(static_cast<uint64_t>(seed));
  session->set_rng_step(static_cast<uint64_t>(rng_step));
}

}  // namespace trainrt
