// Control flow: branches with a known condition are inlined, loops with a known trip count
// unrolled.
#include <algorithm>

#include "frontend/lower.h"

namespace trainrt {
namespace {

constexpr int64_t kMaxIterations = 100'000;

bool as_bool(const LowerContext& c, const Tensor& t, const std::string& what) {
  if (t.size() != 1) c.invalid(what + " is a single bool, given shape " + to_string(t.shape()));
  return t.item() != 0;
}

void set_outputs(LowerContext& c, std::span<const NodeValue> values) {
  for (size_t i = 0; i < std::min(values.size(), c.output_count()); ++i) {
    if (c.wants(i)) c.set_value(i, values[i]);
  }
}

/// A value that the body hands to itself or stacks up, where only a tensor will do.
Var tensor(const LowerContext& c, const NodeValue& value, const char* what) {
  const Var v = tensor_of(value);
  if (!v) c.invalid(std::string(what) + " is no tensor");
  return v;
}

void lower_if(LowerContext& c) {
  const bool condition = as_bool(c, c.constant(0), "the condition");
  if (c.try_constant(0)) c.leave_out(condition ? "else_branch" : "then_branch");
  set_outputs(c, c.subgraph(condition ? "then_branch" : "else_branch", {}));
}

/// The values of all iterations along a new axis, in order or backwards.
Var stack(std::vector<Var> values, int64_t axis, bool reverse) {
  if (reverse) std::reverse(values.begin(), values.end());
  for (Var& v : values) v = unsqueeze(v, {axis});
  return values.size() == 1 ? values[0] : concat(values, axis);
}

Var no_iterations(LowerContext& c, Var one, int64_t axis) {
  Shape shape = one.shape();
  shape.insert(shape.begin() + axis, 0);
  return c.b.fill(one.dtype(), 0, std::move(shape));
}

void lower_loop(LowerContext& c) {
  const size_t carried = c.input_count() > 2 ? c.input_count() - 2 : 0;
  if (c.subgraph_input_count("body") != carried + 2) {
    c.invalid("the body has " + std::to_string(c.subgraph_input_count("body")) +
              " inputs, expected iteration, condition and " + std::to_string(carried) +
              " carried values");
  }
  if (c.subgraph_output_count("body") < carried + 1) {
    c.invalid("the body has " + std::to_string(c.subgraph_output_count("body")) +
              " outputs, expected the condition and at least " + std::to_string(carried) +
              " carried values");
  }
  const size_t scans = c.subgraph_output_count("body") - carried - 1;
  std::optional<int64_t> trips;
  if (c.has(0)) {
    const std::vector<int64_t> m = c.ints(0);
    if (m.size() != 1) c.invalid("the trip count is a single number");
    trips = m[0];
  }
  bool condition = c.has(1) ? as_bool(c, c.constant(1), "the condition") : true;

  std::vector<NodeValue> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(c.need_value(i + 2));
  std::vector<std::vector<Var>> stacked(scans);
  auto iterate = [&](int64_t i) {
    std::vector<NodeValue> inputs = {c.b.constant(Tensor::scalar<int64_t>(i)),
                                     c.b.constant(Tensor::scalar<bool>(true))};
    inputs.insert(inputs.end(), state.begin(), state.end());
    return c.subgraph("body", inputs);
  };
  for (int64_t i = 0; condition && (!trips || i < *trips); ++i) {
    if (i >= kMaxIterations) {
      c.refuse("dynamic", "the loop runs more than " + std::to_string(kMaxIterations) + " times");
    }
    const std::vector<NodeValue> out = iterate(i);
    condition = as_bool(c,
                        c.constant_of(tensor(c, out[0], "the body's condition"),
                                      "the condition of the next iteration"),
                        "the condition");
    std::copy_n(out.begin() + 1, carried, state.begin());
    for (size_t k = 0; k < scans; ++k) {
      stacked[k].push_back(tensor(c, out[1 + carried + k], "a scan output"));
    }
  }

  std::vector<NodeValue> results = state;
  if (scans > 0 && stacked[0].empty()) {
    const std::vector<NodeValue> types = iterate(0);
    for (size_t k = 0; k < scans; ++k) {
      const Var one = tensor(c, types[1 + carried + k], "a scan output");
      results.push_back(no_iterations(c, one, 0));
    }
  } else {
    for (auto& values : stacked) results.push_back(stack(std::move(values), 0, false));
  }
  set_outputs(c, results);
}

/// Entry k of an optional list; the default when the list is absent.
int64_t entry(const LowerContext& c, std::string_view attr, size_t k, size_t count) {
  const std::vector<int64_t> list = c.attr_ints(attr, {});
  if (list.empty()) return 0;
  if (list.size() != count) {
    c.invalid("attribute " + std::string(attr) + " has " + std::to_string(list.size()) +
              " entries, expected " + std::to_string(count));
  }
  return list[k];
}

void lower_scan(LowerContext& c) {
  const int64_t sequences = c.attr_int("num_scan_inputs");
  const auto inputs = static_cast<int64_t>(c.input_count());
  if (sequences < 1 || sequences > inputs) {
    c.invalid("num_scan_inputs is " + std::to_string(sequences) + ", the node has " +
              std::to_string(inputs) + " inputs");
  }
  const auto scan_count = static_cast<size_t>(sequences);
  const auto carried = static_cast<size_t>(inputs - sequences);
  if (c.subgraph_input_count("body") != carried + scan_count ||
      c.subgraph_output_count("body") < carried) {
    c.invalid("the body's inputs or outputs do not match the node's");
  }
  const size_t stacks = c.subgraph_output_count("body") - carried;

  int64_t steps = -1;
  std::vector<std::vector<Var>> slices(scan_count);
  std::vector<Shape> slice_shapes(scan_count);
  for (size_t k = 0; k < scan_count; ++k) {
    const Var x = c.need(carried + k);
    const int64_t axis = c.axis(entry(c, "scan_input_axes", k, scan_count), x.rank());
    if (steps >= 0 && x.dim(axis) != steps) {
      c.invalid("scan inputs of " + std::to_string(steps) + " and " + std::to_string(x.dim(axis)) +
                " steps");
    }
    steps = x.dim(axis);
    if (steps > kMaxIterations) {
      c.refuse("dynamic", "the scan runs more than " + std::to_string(kMaxIterations) + " steps");
    }
    slice_shapes[k] = x.shape();
    slice_shapes[k].erase(slice_shapes[k].begin() + axis);
    if (steps == 0) continue;
    slices[k] = steps == 1 ? std::vector<Var>{x}
                           : split(x, axis, std::vector<int64_t>(static_cast<size_t>(steps), 1));
    for (Var& v : slices[k]) v = reshape(v, slice_shapes[k]);
    if (entry(c, "scan_input_directions", k, scan_count) != 0) {
      std::reverse(slices[k].begin(), slices[k].end());
    }
  }

  std::vector<Var> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(c.need(i));
  std::vector<std::vector<Var>> stacked(stacks);
  for (int64_t t = 0; t < steps; ++t) {
    std::vector<Var> args = state;
    for (const auto& list : slices) args.push_back(list[static_cast<size_t>(t)]);
    const std::vector<Var> out = c.tensor_subgraph("body", args);
    std::copy_n(out.begin(), carried, state.begin());
    for (size_t k = 0; k < stacks; ++k) stacked[k].push_back(out[carried + k]);
  }

  std::vector<Var> types;
  if (steps == 0 && stacks > 0) {
    std::vector<Var> args = state;
    for (size_t k = 0; k < scan_count; ++k) {
      args.push_back(c.b.fill(c.need(carried + k).dtype(), 0, slice_shapes[k]));
    }
    types = c.tensor_subgraph("body", args);
  }
  std::vector<NodeValue> results(state.begin(), state.end());
  for (size_t k = 0; k < stacks; ++k) {
    const Var one = steps == 0 ? types[carried + k] : stacked[k][0];
    const int64_t axis = c.axis(entry(c, "scan_output_axes", k, stacks), one.rank() + 1);
    const bool reverse = entry(c, "scan_output_directions", k, stacks) != 0;
    results.push_back(steps == 0 ? no_iterations(c, one, axis)
                                 : stack(std::move(stacked[k]), axis, reverse));
  }
  set_outputs(c, results);
}

// Opset 8: sequences of a batch, scanned one by one along axis 1. Inputs: their lengths, states,
// scanned tensors, all but the first with a batch axis that the body does not see.
struct BatchScan {
  size_t states, scans, stacks;
  int64_t batch, steps;
  std::vector<int64_t> lengths;
};

BatchScan batch_scan(LowerContext& c) {
  const int64_t count = c.attr_int("num_scan_inputs");
  const auto inputs = static_cast<int64_t>(c.input_count()) - 1;
  if (count < 1 || count > inputs) {
    c.invalid("num_scan_inputs is " + std::to_string(count) + ", the node has " +
              std::to_string(inputs) + " inputs behind sequence_lens");
  }
  BatchScan s{static_cast<size_t>(inputs - count), static_cast<size_t>(count), 0, 0, 0, {}};
  if (c.subgraph_input_count("body") != s.states + s.scans ||
      c.subgraph_output_count("body") < s.states) {
    c.invalid("the body's inputs or outputs do not match the node's");
  }
  s.stacks = c.subgraph_output_count("body") - s.states;
  const Var first = c.need(1 + s.states);
  if (first.rank() < 2) c.invalid("a scanned tensor has axes for batch and time");
  s.batch = first.dim(0);
  s.steps = first.dim(1);
  for (size_t i = 0; i < s.states + s.scans; ++i) {
    const Var x = c.need(1 + i);
    const bool fits = i < s.states ? x.rank() > 0 && x.dim(0) == s.batch
                                   : x.rank() > 1 && x.dim(0) == s.batch && x.dim(1) == s.steps;
    if (!fits) c.invalid("input " + std::to_string(1 + i) + " has another batch or length");
  }
  s.lengths = c.has(0) ? c.ints(0) : std::vector<int64_t>(static_cast<size_t>(s.batch), s.steps);
  if (static_cast<int64_t>(s.lengths.size()) != s.batch ||
      std::any_of(s.lengths.begin(), s.lengths.end(),
                  [&](int64_t n) { return n < 0 || n > s.steps; })) {
    c.invalid("sequence_lens holds a length from 0 to " + std::to_string(s.steps) +
              " for each of " + std::to_string(s.batch) + " sequences");
  }
  return s;
}

/// Row i of an outer axis, without the axis.
Var row(Var x, int64_t i) { return squeeze(slice(x, 0, i, 1), {0}); }

/// The values of one sequence, zeros behind its end: [steps, …].
Var padded(std::vector<Var> values, Var like, int64_t steps) {
  const auto count = static_cast<int64_t>(values.size());
  std::vector<Var> parts;
  if (count > 0) parts.push_back(stack(std::move(values), 0, false));
  if (count < steps || steps == 0) {
    Shape rest = like.shape();
    rest.insert(rest.begin(), steps - count);
    parts.push_back(like.builder().fill(like.dtype(), 0, rest));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

void lower_batch_scan(LowerContext& c) {
  const BatchScan s = batch_scan(c);
  int64_t total = 0;
  for (int64_t n : s.lengths)
    total = std::min(total + std::min(n, kMaxIterations), kMaxIterations + 1);
  if (total > kMaxIterations || s.batch > kMaxIterations) {
    c.refuse("dynamic", "the scan runs more than " + std::to_string(kMaxIterations) + " steps");
  }
  // What the body sees at one step.
  const auto arguments = [&](int64_t sequence, int64_t step, std::vector<Var> state) {
    for (size_t k = 0; k < s.scans; ++k) {
      const bool reverse = entry(c, "directions", k, s.scans) != 0;
      const int64_t n = s.lengths[static_cast<size_t>(sequence)];
      state.push_back(row(row(c.in(1 + s.states + k), sequence), reverse ? n - 1 - step : step));
    }
    return state;
  };
  std::vector<std::vector<Var>> finals(s.states);                 // by sequence
  std::vector<std::vector<std::vector<Var>>> elements(s.stacks);  // and by step
  std::vector<Var> like(s.stacks);
  for (int64_t i = 0; i < s.batch; ++i) {
    std::vector<Var> state;
    for (size_t k = 0; k < s.states; ++k) state.push_back(row(c.in(1 + k), i));
    for (auto& list : elements) list.emplace_back();
    for (int64_t t = 0; t < s.lengths[static_cast<size_t>(i)]; ++t) {
      const std::vector<Var> out = c.tensor_subgraph("body", arguments(i, t, state));
      std::copy_n(out.begin(), s.states, state.begin());
      for (size_t k = 0; k < s.stacks; ++k) {
        elements[k].back().push_back(like[k] = out[s.states + k]);
      }
    }
    for (size_t k = 0; k < s.states; ++k) finals[k].push_back(state[k]);
  }
  if (total == 0) c.refuse("no_lowering", "a scan of opset 8 without a single step");

  std::vector<NodeValue> results;
  for (auto& list : finals) results.push_back(stack(std::move(list), 0, false));
  for (size_t k = 0; k < s.stacks; ++k) {
    std::vector<Var> sequences;
    for (auto& list : elements[k]) sequences.push_back(padded(std::move(list), like[k], s.steps));
    results.push_back(stack(std::move(sequences), 0, false));
  }
  set_outputs(c, results);
}

// Gradients pass through the bodies; parameter discovery follows them there.
constexpr LoweringRow kRows[] = {
    {"", "If", 1, lower_if, GradInputs::kNone},
    {"", "Loop", 1, lower_loop, GradInputs::kAll, "more than 100,000 iterations"},
    {"", "Scan", 8, lower_batch_scan, GradInputs::kAll,
     "more than 100,000 steps; opset 8: no steps at all"},
    {"", "Scan", 9, lower_scan},
};

}  // namespace

std::span<const LoweringRow> control_flow_lowerings() { return kRows; }

}  // namespace trainrt
