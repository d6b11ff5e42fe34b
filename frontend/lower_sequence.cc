// Sequences and optionals of tensors: they exist only while a plan is built.
#include <algorithm>

#include "frontend/lower.h"

namespace trainrt {
namespace {

/// Position in [-n, n) (with `end`: [-n, n]) to [0, n].
size_t position(LowerContext& c, size_t input, size_t count, bool end) {
  const std::vector<int64_t> list = c.ints(input);
  if (list.size() != 1) c.invalid("the position is a single number");
  const auto n = static_cast<int64_t>(count);
  if (list[0] < -n || list[0] >= (end ? n + 1 : n)) {
    c.invalid("position " + std::to_string(list[0]) + " is outside a sequence of " +
              std::to_string(n));
  }
  return static_cast<size_t>(list[0] < 0 ? list[0] + n : list[0]);
}

void lower_empty(LowerContext& c) { c.set_value(0, Sequence()); }

void lower_construct(LowerContext& c) {
  Sequence values;
  for (size_t i = 0; i < c.input_count(); ++i) values.push_back(c.need(i));
  c.set_value(0, std::move(values));
}

void lower_at(LowerContext& c) {
  const Sequence values = c.sequence(0);
  c.set(values[position(c, 1, values.size(), false)]);
}

void lower_insert(LowerContext& c) {
  Sequence values = c.sequence(0);
  const size_t at = c.has(2) ? position(c, 2, values.size(), true) : values.size();
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(at), c.need(1));
  c.set_value(0, std::move(values));
}

void lower_erase(LowerContext& c) {
  Sequence values = c.sequence(0);
  if (values.empty()) c.invalid("the sequence is empty");
  const size_t at = c.has(1) ? position(c, 1, values.size(), false) : values.size() - 1;
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
  c.set_value(0, std::move(values));
}

void lower_length(LowerContext& c) {
  c.set(c.b.constant(Tensor::scalar(static_cast<int64_t>(c.sequence(0).size()))));
}

void lower_concat_from(LowerContext& c) {
  Sequence values = c.sequence(0);
  if (values.empty()) c.invalid("the sequence is empty");
  const bool stack = c.attr_int("new_axis", 0) != 0;
  const int64_t axis = c.axis(c.attr_int("axis"), values[0].rank() + (stack ? 1 : 0));
  if (stack) {
    for (Var& v : values) v = unsqueeze(v, {axis});
  }
  c.set(values.size() == 1 ? values[0] : concat(values, axis));
}

/// Without sizes: pieces of one, whose axis goes unless keepdims says otherwise. With a single
/// number: pieces of that size, the last one may be smaller.
void lower_split_to(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t axis = c.axis(c.attr_int("axis", 0), x.rank());
  const int64_t length = x.dim(axis);
  std::vector<int64_t> sizes;
  const bool given = c.has(1);
  if (given && c.in(1).rank() == 1) {
    sizes = c.ints(1);
  } else {
    const int64_t size = given ? c.ints(1).at(0) : 1;
    if (size < 1) c.invalid("pieces of size " + std::to_string(size));
    if (length / size > 100'000) c.refuse("memory", "the sequence has too many entries");
    for (int64_t at = 0; at < length; at += size) sizes.push_back(std::min(size, length - at));
  }
  Sequence parts = sizes.size() == 1 && sizes[0] == length ? Sequence{x} : split(x, axis, sizes);
  if (!given && c.attr_int("keepdims", 1) == 0) {
    for (Var& v : parts) v = squeeze(v, {axis});
  }
  c.set_value(0, std::move(parts));
}

/// The body runs for each position: sequences give their entry there, tensors go in whole.
void lower_map(LowerContext& c) {
  const size_t count = c.sequence(0).size();
  std::vector<NodeValue> inputs;
  for (size_t i = 0; i < c.input_count(); ++i) {
    inputs.push_back(c.need_value(i));
    const Sequence* list = std::get_if<Sequence>(&inputs.back());
    if (list != nullptr && list->size() != count) {
      c.invalid("sequences of " + std::to_string(count) + " and " + std::to_string(list->size()) +
                " entries");
    }
  }
  std::vector<Sequence> outputs(c.subgraph_output_count("body"));
  for (size_t k = 0; k < count; ++k) {
    std::vector<Var> args;
    for (const NodeValue& v : inputs) {
      const Sequence* list = std::get_if<Sequence>(&v);
      args.push_back(list != nullptr ? (*list)[k] : tensor_of(v));
    }
    const std::vector<Var> results = c.tensor_subgraph("body", args);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].push_back(results[i]);
  }
  for (size_t i = 0; i < std::min(outputs.size(), c.output_count()); ++i) {
    c.set_value(i, std::move(outputs[i]));
  }
}

void lower_optional(LowerContext& c) {
  c.set_value(0, c.input_count() > 0 ? c.need_value(0) : EmptyOptional());
}

void lower_get_element(LowerContext& c) {
  NodeValue v = c.need_value(0);
  if (std::holds_alternative<EmptyOptional>(v)) c.invalid("the optional is empty");
  c.set_value(0, std::move(v));
}

/// False for an absent input, too.
void lower_has_element(LowerContext& c) {
  const NodeValue v = c.value(0);
  const bool has = !is_absent(v) && !std::holds_alternative<EmptyOptional>(v);
  c.set(c.b.constant(Tensor::scalar(has)));
}

constexpr LoweringRow kRows[] = {
    {"", "ConcatFromSequence", 11, lower_concat_from},
    {"", "Optional", 15, lower_optional},
    {"", "OptionalGetElement", 15, lower_get_element},
    {"", "OptionalHasElement", 15, lower_has_element, GradInputs::kNone},
    {"", "SequenceAt", 11, lower_at, GradInputs::kFirst},
    {"", "SequenceConstruct", 11, lower_construct},
    {"", "SequenceEmpty", 11, lower_empty, GradInputs::kNone},
    {"", "SequenceErase", 11, lower_erase, GradInputs::kFirst},
    {"", "SequenceInsert", 11, lower_insert, GradInputs::kFirstTwo},
    {"", "SequenceLength", 11, lower_length, GradInputs::kNone},
    {"", "SequenceMap", 17, lower_map},
    {"", "SplitToSequence", 11, lower_split_to, GradInputs::kFirst},
};

}  // namespace

std::span<const LoweringRow> sequence_lowerings() { return kRows; }

}  // namespace trainrt
