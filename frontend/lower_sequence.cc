// Sequences of tensors: lists that exist only while a plan is built.
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

void lower_empty(LowerContext& c) { c.set_sequence(0, {}); }

void lower_construct(LowerContext& c) {
  std::vector<Var> values;
  for (size_t i = 0; i < c.input_count(); ++i) values.push_back(c.need(i));
  c.set_sequence(0, std::move(values));
}

void lower_at(LowerContext& c) {
  const std::vector<Var> values = c.sequence(0);
  c.set(values[position(c, 1, values.size(), false)]);
}

void lower_insert(LowerContext& c) {
  std::vector<Var> values = c.sequence(0);
  const size_t at = c.has(2) ? position(c, 2, values.size(), true) : values.size();
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(at), c.need(1));
  c.set_sequence(0, std::move(values));
}

void lower_erase(LowerContext& c) {
  std::vector<Var> values = c.sequence(0);
  if (values.empty()) c.invalid("the sequence is empty");
  const size_t at = c.has(1) ? position(c, 1, values.size(), false) : values.size() - 1;
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
  c.set_sequence(0, std::move(values));
}

void lower_length(LowerContext& c) {
  c.set(c.b.constant(Tensor::scalar(static_cast<int64_t>(c.sequence(0).size()))));
}

void lower_concat_from(LowerContext& c) {
  std::vector<Var> values = c.sequence(0);
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
  std::vector<Var> parts =
      sizes.size() == 1 && sizes[0] == length ? std::vector<Var>{x} : split(x, axis, sizes);
  if (!given && c.attr_int("keepdims", 1) == 0) {
    for (Var& v : parts) v = squeeze(v, {axis});
  }
  c.set_sequence(0, std::move(parts));
}

constexpr LoweringRow kRows[] = {
    {"", "ConcatFromSequence", 11, lower_concat_from},
    {"", "SequenceAt", 11, lower_at, GradInputs::kFirst},
    {"", "SequenceConstruct", 11, lower_construct},
    {"", "SequenceEmpty", 11, lower_empty, GradInputs::kNone},
    {"", "SequenceErase", 11, lower_erase, GradInputs::kFirst},
    {"", "SequenceInsert", 11, lower_insert, GradInputs::kFirstTwo},
    {"", "SequenceLength", 11, lower_length, GradInputs::kNone},
    {"", "SplitToSequence", 11, lower_split_to, GradInputs::kFirst},
};

}  // namespace

std::span<const LoweringRow> sequence_lowerings() { return kRows; }

}  // namespace trainrt
