#include "runtime/plan.h"

#include <algorithm>
#include <cstring>

#include "graph/text.h"
#include "kernels/blocked_view.h"
#include "runtime/arena.h"
#include "runtime/cost.h"
#include "runtime/layout.h"
#include "runtime/memory_planner.h"
#include "runtime/norm_conv.h"
#include "runtime/precision.h"

namespace trainrt {
namespace {

size_t at(int32_t index) { return static_cast<size_t>(index); }

std::string megabytes(size_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; }

std::unique_ptr<Kernel> copy_kernel(size_t bytes) {
  return make_kernel([bytes](const KernelArgs& args) {
    if (bytes > 0) std::memcpy(args.out[0], args.in[0], bytes);
  });
}

Tensor stored_value(const Node& node) {
  if (node.op == Op::kConstant) {
    const Tensor& value = std::get<ConstantAttrs>(node.attrs).value;
    // Kernels count on aligned operands; a view of foreign memory may not be.
    return reinterpret_cast<uintptr_t>(value.raw()) % kBlockAlignment == 0 ? value : value.clone();
  }
  const auto& fill = std::get<FillAttrs>(node.attrs);
  Tensor value(fill.dtype, fill.shape);
  value.fill(fill.value);
  return value;
}

std::string_view storage_name(Storage storage) {
  constexpr std::string_view kNames[] = {"arena", "input", "constant", "state", "output"};
  return kNames[static_cast<size_t>(storage)];
}

std::string_view section_name(Section section) {
  constexpr std::string_view kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<size_t>(section)];
}

/// A graph with kernels and order.
struct Ordered {
  std::vector<Assignment> rows;
  Schedule schedule;
};

Ordered order(Graph& graph, const PlanOptions& options) {
  const RowTable table(options.kernels);
  assign_layouts(graph, table);
  fuse_norm_conv(graph, table);
  if (options.bf16) assign_bfloat16(graph, table);
  Diagnostics problems;
  Ordered result;
  result.rows = partition(graph, options.kernels, problems);
  problems.throw_if_any(ErrorCode::kUnsupported, "the model cannot be run");
  result.schedule = make_schedule(graph, result.rows, options.schedule);
  return result;
}

}  // namespace

size_t planned_arena_bytes(Graph graph, const PlanOptions& options, ScratchSizes& scratch) {
  const Ordered ordered = order(graph, options);
  std::vector<Lifetime> lifetimes;
  for (const Block& block : ordered.schedule.blocks) {
    if (block.storage == Storage::kArena) {
      lifetimes.push_back({block.first, block.last, block.bytes});
    }
  }
  for (size_t p = 0; p < ordered.schedule.order.size(); ++p) {
    const NodeId id = ordered.schedule.order[p];
    const Node& node = graph.node(id);
    if (ordered.schedule.copies[at(id.index)]) continue;
    const NodeTypes types(graph, node);
    std::string key(op_info(node.op).name);
    key += to_string(node.attrs, false);
    for (const TensorType& t : types.inputs) key += to_string(t);
    for (const TensorType& t : types.outputs) key += to_string(t);
    const auto [known, fresh] = scratch.try_emplace(std::move(key), 0);
    if (fresh) {
      Scratch needed;
      plan_row(*ordered.rows[at(id.index)].row, types.view(node), needed);
      known->second = needed.bytes;
    }
    const auto position = static_cast<int32_t>(p);
    if (known->second > 0) lifetimes.push_back({position, position, known->second});
  }
  return plan_memory(lifetimes).peak;
}

Plan::Plan(Graph graph, const StateLookup& state, const PlanOptions& options)
    : graph_(std::move(graph)) {
  Ordered ordered = order(graph_, options);
  rows_ = std::move(ordered.rows);
  schedule_ = std::move(ordered.schedule);
  flops_ = graph_flops(graph_);

  // Arena blocks first, so that block numbers can be found again, then one per kernel's scratch.
  std::vector<Lifetime> lifetimes;
  std::vector<size_t> arena_blocks;
  size_t state_bytes = 0;
  for (size_t b = 0; b < schedule_.blocks.size(); ++b) {
    const Block& block = schedule_.blocks[b];
    if (block.storage == Storage::kArena) {
      arena_blocks.push_back(b);
      lifetimes.push_back({block.first, block.last, block.bytes});
    } else if (block.storage == Storage::kState) {
      state_bytes += block.bytes;
    } else {
      fixed_bytes_ += block.bytes;
    }
  }
  const size_t limit = options.memory_limit != 0 ? options.memory_limit : memory_limit();
  auto hold_against_limit = [&](const MemoryLayout& layout) {
    const size_t parts[] = {options.bytes_in_use, state_bytes, fixed_bytes_, layout.peak};
    size_t need = 0;
    for (size_t part : parts) {
      if (part > limit - need) {
        throw Error(ErrorCode::kMemory, "this step needs " + megabytes(layout.peak) +
                                            " for intermediate values, " + megabytes(fixed_bytes_) +
                                            " for inputs, outputs and constants, " +
                                            megabytes(state_bytes) +
                                            " for parameters and optimizer state; the limit is " +
                                            megabytes(limit) + ": use smaller batches or shapes");
      }
      need += part;
    }
  };
  hold_against_limit(plan_memory(lifetimes));

  std::vector<size_t> scratch_steps;
  for (size_t p = 0; p < schedule_.order.size(); ++p) {
    const NodeId id = schedule_.order[p];
    const Node& node = graph_.node(id);
    PlanStep step;
    step.node = id;
    if (schedule_.copies[at(id.index)]) {
      step.kernel = copy_kernel(graph_.type(node.outputs[0]).bytes());
    } else {
      const NodeTypes types(graph_, node);
      Scratch scratch;
      step.kernel = plan_row(*rows_[at(id.index)].row, types.view(node), scratch);
      TRAINRT_CHECK(step.kernel != nullptr, describe(graph_, id) + " got no kernel");
      if (scratch.bytes > 0) {
        scratch_steps.push_back(p);
        const auto position = static_cast<int32_t>(p);
        lifetimes.push_back({position, position, scratch.bytes});
      }
    }
    steps_.push_back(std::move(step));
  }
  const MemoryLayout layout = plan_memory(lifetimes);
  hold_against_limit(layout);
  arena_bytes_ = layout.peak;
  lower_bound_ = layout.lower_bound;

  block_offset_.assign(schedule_.blocks.size(), 0);
  for (size_t i = 0; i < arena_blocks.size(); ++i)
    block_offset_[arena_blocks[i]] = layout.offsets[i];
  std::vector<Tensor> block_tensor(schedule_.blocks.size());
  for (const Node& node : graph_.nodes()) {
    if (node.outputs.empty()) continue;
    const int32_t block = schedule_.block_of[at(node.outputs[0].index)];
    if (block < 0) continue;
    Tensor& tensor = block_tensor[at(block)];
    if (node.op == Op::kInput) {
      const auto& attrs = std::get<InputAttrs>(node.attrs);
      if (schedule_.blocks[at(block)].storage == Storage::kState) {
        tensor = state(attrs);
        TRAINRT_CHECK(
            tensor.defined() && tensor.dtype() == attrs.dtype && tensor.shape() == attrs.shape,
            "state '" + attrs.name + "' is not what the graph expects");
      } else {
        tensor = Tensor(attrs.dtype, attrs.shape);
      }
    } else if (is_stored_constant(node)) {
      tensor = stored_value(node);
    }
  }
  for (size_t b = 0; b < schedule_.blocks.size(); ++b) {
    const Block& block = schedule_.blocks[b];
    if (block.storage == Storage::kOutput) {
      block_tensor[b] = Tensor(DType::kUInt8, {static_cast<int64_t>(block.bytes)});
    }
    if (block_tensor[b].defined()) keep_.push_back(block_tensor[b]);
  }
  value_tensor_.resize(at(graph_.value_count()));
  for (int32_t v = 0; v < graph_.value_count(); ++v) {
    const int32_t block = schedule_.block_of[at(v)];
    if (block < 0 || !block_tensor[at(block)].defined()) continue;
    const TensorType& type = graph_.type(ValueId{v});
    value_tensor_[at(v)] = Tensor::view(block_tensor[at(block)].raw(), type.dtype, type.shape);
  }

  auto operand = [&](ValueId v) -> Operand {
    if (value_tensor_[at(v.index)].defined()) {
      return {static_cast<std::byte*>(value_tensor_[at(v.index)].raw()), 0};
    }
    const int32_t block = schedule_.block_of[at(v.index)];
    TRAINRT_CHECK(block >= 0, "a value without storage");
    return {nullptr, block_offset_[at(block)]};
  };
  for (PlanStep& step : steps_) {
    const Node& node = graph_.node(step.node);
    for (ValueId v : node.inputs) step.in.push_back(operand(v));
    for (ValueId v : node.outputs) step.out.push_back(operand(v));
  }
  for (PlanStep& step : steps_) step.scratch = {nullptr, kNoScratch};
  for (size_t i = 0; i < scratch_steps.size(); ++i) {
    steps_[scratch_steps[i]].scratch.offset = layout.offsets[arena_blocks.size() + i];
  }
}

std::string_view Plan::kernel_name(size_t step) const {
  const size_t node = at(steps_[step].node.index);
  return schedule_.copies[node] ? std::string_view("copy") : rows_[node].row->name;
}

size_t Plan::section_begin(Section section) const {
  const auto it = std::find_if(steps_.begin(), steps_.end(), [&](const PlanStep& step) {
    return graph_.node(step.node).section >= section;
  });
  return static_cast<size_t>(it - steps_.begin());
}

Tensor Plan::input(std::string_view name, InputRole role) const {
  const ValueId v = graph_.find_input(name, role);
  return v ? value_tensor_[at(v.index)] : Tensor();
}

Tensor Plan::output(std::string_view name, OutputRole role) const {
  const ValueId v = graph_.find_output(name, role);
  return v ? value_tensor_[at(v.index)] : Tensor();
}

std::string Plan::text() const {
  std::string text;
  auto place = [&](ValueId v) {
    std::string s = "%" + std::to_string(v.index) + ":" + to_string(graph_.type(v));
    const int32_t b = schedule_.block_of[at(v.index)];
    if (b < 0) return s;
    const Storage storage = schedule_.blocks[at(b)].storage;
    s += "@" + std::string(storage_name(storage));
    if (storage == Storage::kArena) s += "+" + std::to_string(block_offset_[at(b)]);
    return s;
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PlanStep& step = steps_[i];
    const Node& node = graph_.node(step.node);
    const Assignment& assigned = rows_[at(step.node.index)];
    text += std::to_string(i) + " " + std::string(section_name(node.section)) + " ";
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      text += (k == 0 ? "" : ", ") + place(node.outputs[k]);
    }
    text += " = " + std::string(op_info(node.op).name) + "(";
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      text += (k == 0 ? "" : ", ") + place(node.inputs[k]);
    }
    text += ")";
    const std::string attrs = to_string(node.attrs, false);
    if (!attrs.empty()) text += " " + attrs;
    text += "  [";
    text += kernel_name(i);
    text += "] bytes=" + std::to_string(node_bytes(graph_, node));
    if (const int64_t flops = node_flops(graph_, node); flops > 0) {
      text += " flops=" + std::to_string(flops);
    }
    const SourceRef& source = graph_.source(node);
    if (!source.node.empty()) text += "  // " + source.node + " (" + source.op + ")";
    text += "\n";
    for (const Refusal& r : assigned.refusals) {
      text += "    refused by " + std::string(r.row) + ": " + r.reason + "\n";
    }
  }
  text += "arena " + std::to_string(arena_bytes_) + " bytes, lower bound " +
          std::to_string(lower_bound_) + "; fixed " + std::to_string(fixed_bytes_) + " bytes; " +
          std::to_string(flops_) + " flops; " +
          std::to_string(std::count_if(graph_.nodes().begin(), graph_.nodes().end(),
                                       [](const Node& n) { return n.op == Op::kReorder; })) +
          " reorders\n";
  return text;
}

}  // namespace trainrt
