#include "runtime/module/original_state.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "trainrt/state.h"

namespace trainrt {
namespace {

constexpr const char* kHowToExport =
    ". Export without folding: torch.onnx.export(…, dynamo=True, optimize=False), or with "
    "dynamo=False training=TrainingMode.TRAINING and do_constant_folding=False";

/// Calls copy(in the framework's tensor, in the file's weight, bytes) for each block.
template <typename Copy>
void for_each_block(const StateEntry& entry, size_t element, const Copy& copy) {
  const auto total = static_cast<size_t>(element_count(entry.shape)) * element;
  const size_t block = total / entry.blocks.size();
  const size_t offset = static_cast<size_t>(entry.offset) * element;
  for (size_t i = 0; i < entry.blocks.size(); ++i) {
    copy(i * block, offset + static_cast<size_t>(entry.blocks[i]) * block, block);
  }
}

std::string_view leaf_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

bool is_scalar(const Tensor& t) { return t.size() == 1 && t.rank() <= 1; }

/// 0, 1, … n-1 along the last axis of [n] or [1, n].
bool counts_up(const Tensor& t) {
  if (t.rank() < 1 || t.rank() > 2 || t.shape().back() != t.size()) return false;
  const std::vector<int64_t> numbers = t.to_ints();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

/// Ones on and below the diagonal, zeros above.
bool is_lower_triangle(const Tensor& t) {
  if (t.rank() != 2 && t.rank() != 4) return false;
  const int64_t n = t.shape().back();
  if (n < 2 || t.size() != n * n || t.shape()[t.shape().size() - 2] != n) return false;
  const Tensor values = t.to(DType::kFloat64);
  const auto x = values.data<double>();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      if (x[static_cast<size_t>(i * n + j)] != (j <= i ? 1.0 : 0.0)) return false;
    }
  }
  return true;
}

void check_complete(const StateLayout& layout) {
  std::string faults;
  const auto fault = [&](const std::string& text) {
    faults += (faults.empty() ? "" : "; ") + text;
  };
  for (const auto& [weight, reason] : layout.refused) fault("'" + weight + "': " + reason);
  for (const std::string& key : layout.lost) {
    // Other buffers that nothing reads are masks and the like.
    const std::string_view leaf = leaf_of(key);
    const bool matters =
        layout.lost_parameters.contains(key) || leaf == "running_mean" || leaf == "running_var";
    if (matters) fault("no weight of the file holds '" + key + "'");
  }
  if (faults.empty()) return;
  throw Error(
      ErrorCode::kUnsupported,
      "the framework's state cannot be given back from this file: " + faults + kHowToExport);
}

}  // namespace

void copy_transposed(Tensor to, const Tensor& from) {
  const auto rows = static_cast<size_t>(from.shape()[0]);
  const auto columns = static_cast<size_t>(from.shape()[1]);
  const size_t element = dtype_size(to.dtype());
  auto* y = static_cast<char*>(to.raw());
  const auto* x = static_cast<const char*>(from.raw());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      std::memcpy(y + (j * rows + i) * element, x + (i * columns + j) * element, element);
    }
  }
}

bool equal_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

Tensor to_original(const StateEntry& entry, const Tensor& weight) {
  Tensor value(weight.dtype(), entry.shape);
  if (entry.transposed) {
    copy_transposed(value, weight);
    return value;
  }
  const auto* from = static_cast<const char*>(weight.raw());
  auto* to = static_cast<char*>(value.raw());
  for_each_block(entry, dtype_size(weight.dtype()),
                 [&](size_t original, size_t file, size_t bytes) {
                   std::memcpy(to + original, from + file, bytes);
                 });
  return value;
}

void from_original(const StateEntry& entry, const Tensor& value, Tensor weight) {
  if (entry.transposed) {
    copy_transposed(weight, value);
    return;
  }
  const auto* from = static_cast<const char*>(value.raw());
  auto* to = static_cast<char*>(weight.raw());
  for_each_block(entry, dtype_size(weight.dtype()),
                 [&](size_t original, size_t file, size_t bytes) {
                   std::memmove(to + file, from + original, bytes);
                 });
}

Tensor weight_value(const Session& session, const std::string& name) {
  const Tensor parameter = session.parameter_values().find(name);
  return parameter.defined() ? parameter : session.buffers().find(name);
}

bool is_bookkeeping(const std::string& key, const Tensor& value, const StateLayout& layout) {
  const std::string_view leaf = leaf_of(key);
  const bool whole = !is_float(value.dtype());
  if (leaf == "num_batches_tracked") return whole && is_scalar(value);
  if (leaf == "position_ids" && whole && counts_up(value)) return true;
  if (leaf == "masked_bias" && is_scalar(value)) return true;
  if ((leaf == "bias" || leaf == "mask") && is_lower_triangle(value)) return true;
  return value.size() > 1 &&
         std::any_of(layout.constants.begin(), layout.constants.end(),
                     [&](const StateConstant& c) { return equal_bytes(c.value, value); });
}

StateDict original_state_dict(const Session& session) {
  const StateLayout& layout = session.model().state_layout();
  check_complete(layout);
  StateDict dict;
  std::map<std::string, size_t> known;
  for (const StateEntry& entry : layout.entries) {
    Tensor value = to_original(entry, weight_value(session, entry.weight));
    const auto [it, is_new] = known.try_emplace(entry.key, dict.size());
    if (is_new) {
      dict.emplace_back(entry.key, std::move(value));
    } else if (!equal_bytes(dict[it->second].second, value)) {
      throw Error(ErrorCode::kUnsupported,
                  "'" + entry.key +
                      "' lies in the file more than once, and training has made the "
                      "copies different: train with tied weights (tie_weights), or export without "
                      "constant folding");
    }
  }
  for (const StateConstant& constant : layout.constants) {
    if (constant.in_state) dict.emplace_back(constant.name, constant.value.clone());
  }
  return dict;
}

StateDict state_dict(const Module& module, KeyStyle style) {
  return style == KeyStyle::kFile ? module.state_dict() : original_state_dict(module);
}

StateDict original_state_dict(const Module& module) {
  return original_state_dict(*module.session());
}

}  // namespace trainrt
