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
  std::vector<Side> sides;  // of plans for a GPU
  Schedule schedule;
};

Ordered order(Graph& graph, const PlanOptions& options) {
  const RowTable table(options.kernels);
  assign_layouts(graph, table);
  fuse_norm_conv(graph, table);
  if (options.bf16) assign_bfloat16(graph, table);
  Diagnostics problems;
  Ordered result;
  if (options.gpu) {
    const RowTable host(options.gpu->fallback);
    Placement placement =
        assign_sides(graph, table, options.gpu->fallback.empty() ? nullptr : &host, problems);
    result.rows = std::move(placement.rows);
    result.sides = std::move(placement.sides);
    verify_sides(graph, result.sides);
  } else {
    result.rows = partition(graph, options.kernels, problems);
  }
  problems.throw_if_any(ErrorCode::kUnsupported, "the model cannot be run");
  result.schedule = make_schedule(graph, result.rows, options.schedule);
  return result;
}

Scratch scratch_for(const PlanOptions& options) {
  Scratch scratch;
  if (options.gpu) {
    if (options.gpu->context != nullptr) scratch.device = &options.gpu->context->device();
    scratch.products = options.gpu->products;
  }
  return scratch;
}

/// The node's kernel by its row, or by the first one behind it that the device can run.
std::unique_ptr<Kernel> plan_node(const RowTable& table, const NodeView& node, Assignment& row,
                                  Scratch& scratch) {
  for (;;) {
    const size_t before = scratch.bytes;
    if (auto kernel = plan_row(*row.row, node, scratch)) return kernel;
    scratch.bytes = before;
    row.refusals.push_back({row.row->name, "the device has no way to run it"});
    Assignment next = table.find(node, row.row);
    row.row = next.row;
    row.refusals.insert(row.refusals.end(), next.refusals.begin(), next.refusals.end());
    if (row.row == nullptr) return nullptr;
  }
}

bool on_host(const std::vector<Side>& sides, NodeId id) {
  return sides.empty() || sides[at(id.index)] == Side::kHost;
}

/// A copy between the host and the GPU.
std::unique_ptr<Kernel> transfer_kernel(size_t bytes, bool to_host) {
  return make_kernel([bytes, to_host](const KernelArgs& args) {
    if (bytes == 0) return;
    if (to_host) {
      args.stream->copy_to_host(args.out[0], args.in[0], bytes);
    } else {
      args.stream->copy_to_device(args.out[0], args.in[0], bytes);
    }
  });
}

std::unique_ptr<Kernel> device_copy_kernel(size_t bytes) {
  return make_kernel([bytes](const KernelArgs& args) {
    if (bytes > 0) args.stream->copy_on_device(args.out[0], args.in[0], bytes);
  });
}

}  // namespace

size_t planned_arena_bytes(Graph graph, const PlanOptions& options, ScratchSizes& scratch) {
  Ordered ordered = order(graph, options);
  const RowTable table(options.kernels);
  std::vector<Lifetime> lifetimes;
  // What nodes on the host need is counted as well: the budget is for all.
  for (const Block& block : ordered.schedule.blocks) {
    if (block.storage == Storage::kArena) {
      lifetimes.push_back({block.first, block.last, block.bytes});
    }
  }
  for (size_t p = 0; p < ordered.schedule.order.size(); ++p) {
    const NodeId id = ordered.schedule.order[p];
    const Node& node = graph.node(id);
    if (ordered.schedule.copies[at(id.index)] || node.op == Op::kTransfer) continue;
    const NodeTypes types(graph, node);
    std::string key(op_info(node.op).name);
    key += to_string(node.attrs, false);
    for (const TensorType& t : types.inputs) key += to_string(t);
    for (const TensorType& t : types.outputs) key += to_string(t);
    const auto [known, fresh] = scratch.try_emplace(std::move(key), 0);
    if (fresh) {
      Scratch needed = scratch_for(options);
      plan_node(table, types.view(node), ordered.rows[at(id.index)], needed);
      known->second = needed.bytes;
    }
    const auto position = static_cast<int32_t>(p);
    if (known->second > 0) lifetimes.push_back({position, position, known->second});
  }
  return plan_memory(lifetimes).peak;
}

Plan::Plan(Graph graph, const StateLookup& state, const PlanOptions& options)
    : graph_(std::move(graph)), for_gpu_(options.gpu.has_value()) {
  Ordered ordered = order(graph_, options);
  rows_ = std::move(ordered.rows);
  sides_ = std::move(ordered.sides);
  schedule_ = std::move(ordered.schedule);
  flops_ = graph_flops(graph_);
  if (for_gpu_ && options.gpu->context != nullptr) {
    gpu_ = std::make_shared<GpuBuffers>(options.gpu->context);
  }

  // Arena blocks first, so that block numbers can be found again, then one per kernel's scratch.
  std::vector<Lifetime> lifetimes, host_lifetimes;
  std::vector<size_t> arena_blocks, host_blocks;
  const std::vector<Side> block_sides = sides_of_blocks();
  size_t state_bytes = 0;
  for (size_t b = 0; b < schedule_.blocks.size(); ++b) {
    const Block& block = schedule_.blocks[b];
    if (block.storage == Storage::kArena) {
      const bool host = for_gpu_ && block_sides[b] == Side::kHost;
      (host ? host_blocks : arena_blocks).push_back(b);
      (host ? host_lifetimes : lifetimes).push_back({block.first, block.last, block.bytes});
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

  std::vector<std::pair<size_t, size_t>> scratch;  // step, place among its arena's lifetimes
  make_steps(options, lifetimes, host_lifetimes, scratch);
  const MemoryLayout layout = plan_memory(lifetimes), host_layout = plan_memory(host_lifetimes);
  hold_against_limit(layout);
  arena_bytes_ = layout.peak;
  host_arena_bytes_ = host_layout.peak;
  lower_bound_ = layout.lower_bound;

  block_offset_.assign(schedule_.blocks.size(), 0);
  for (size_t i = 0; i < arena_blocks.size(); ++i)
    block_offset_[arena_blocks[i]] = layout.offsets[i];
  for (size_t i = 0; i < host_blocks.size(); ++i)
    block_offset_[host_blocks[i]] = host_layout.offsets[i];
  make_blocks(state, block_sides);
  for (PlanStep& step : steps_) {
    const Node& node = graph_.node(step.node);
    for (ValueId v : node.inputs) step.in.push_back(operand(v));
    for (ValueId v : node.outputs) step.out.push_back(operand(v));
    step.scratch = {nullptr, kNoScratch, for_gpu_ && !step.on_host ? Side::kDevice : Side::kHost};
  }
  for (const auto& [step, place] : scratch) {
    const bool host = steps_[step].scratch.side == Side::kHost && for_gpu_;
    steps_[step].scratch.offset = (host ? host_layout : layout).offsets[place];
  }
  if (gpu_ != nullptr) {
    gpu_->context().device().finish_compiling();
    first_step_ = gpu_->context().add_steps(
        static_cast<int32_t>(steps_.size()),
        [this](int32_t step) { return describe(graph_, steps_[at(step)].node); });
  }
}

Plan::~Plan() {
  if (gpu_ != nullptr) gpu_->context().forget_steps(first_step_);
}

std::vector<Side> Plan::sides_of_blocks() const {
  std::vector<Side> sides(schedule_.blocks.size(), Side::kHost);
  for (int32_t v = 0; for_gpu_ && v < graph_.value_count(); ++v) {
    const int32_t block = schedule_.block_of[at(v)];
    if (block >= 0) sides[at(block)] = side(ValueId{v});
  }
  return sides;
}

Side Plan::side(ValueId v) const {
  return for_gpu_ ? sides_[at(graph_.value(v).producer.index)] : Side::kHost;
}

void Plan::make_steps(const PlanOptions& options, std::vector<Lifetime>& arena,
                      std::vector<Lifetime>& host_arena,
                      std::vector<std::pair<size_t, size_t>>& scratch_of) {
  const RowTable table(options.kernels);
  const RowTable host_table(options.gpu ? options.gpu->fallback : KernelLists());
  for (size_t p = 0; p < schedule_.order.size(); ++p) {
    const NodeId id = schedule_.order[p];
    const Node& node = graph_.node(id);
    const bool host = on_host(sides_, id);
    PlanStep step;
    step.node = id;
    step.on_host = for_gpu_ && host && node.op != Op::kTransfer;
    host_steps_ += for_gpu_ && (host || node.op == Op::kTransfer);
    if (node.op == Op::kTransfer) {
      step.kernel = transfer_kernel(graph_.type(node.outputs[0]).bytes(), host);
    } else if (schedule_.copies[at(id.index)]) {
      const size_t bytes = graph_.type(node.outputs[0]).bytes();
      step.kernel = host ? copy_kernel(bytes) : device_copy_kernel(bytes);
    } else {
      const NodeTypes types(graph_, node);
      Scratch scratch = host ? Scratch() : scratch_for(options);
      step.kernel = plan_node(for_gpu_ && host ? host_table : table, types.view(node),
                              rows_[at(id.index)], scratch);
      TRAINRT_CHECK(step.kernel != nullptr, describe(graph_, id) + " got no kernel");
      if (scratch.bytes > 0) {
        std::vector<Lifetime>& lifetimes = for_gpu_ && host ? host_arena : arena;
        scratch_of.emplace_back(p, lifetimes.size());
        const auto position = static_cast<int32_t>(p);
        lifetimes.push_back({position, position, scratch.bytes});
      }
    }
    steps_.push_back(std::move(step));
  }
}

void Plan::make_blocks(const StateLookup& state, const std::vector<Side>& sides) {
  // By block: the host's tensor, and the offset or address of what lies on a GPU.
  std::vector<Tensor> block_tensor(schedule_.blocks.size());
  std::vector<std::byte*> block_address(schedule_.blocks.size(), nullptr);
  std::vector<size_t> booked(schedule_.blocks.size(), kNoScratch);
  const auto on_device = [&](size_t b) { return for_gpu_ && sides[b] == Side::kDevice; };
  if (gpu_ != nullptr) {
    for (size_t b = 0; b < schedule_.blocks.size(); ++b) {
      const Block& block = schedule_.blocks[b];
      if (!on_device(b)) continue;
      if (block.storage == Storage::kInput) booked[b] = gpu_->book_input(block.bytes);
      if (block.storage == Storage::kConstant || block.storage == Storage::kOutput) {
        booked[b] = gpu_->book_fixed(block.bytes);
      }
    }
    gpu_->allocate();
  }
  for (const Node& node : graph_.nodes()) {
    if (node.outputs.empty()) continue;
    const int32_t number = schedule_.block_of[at(node.outputs[0].index)];
    if (number < 0) continue;
    const size_t b = at(number);
    Tensor& tensor = block_tensor[b];
    if (node.op == Op::kInput) {
      const auto& attrs = std::get<InputAttrs>(node.attrs);
      if (schedule_.blocks[b].storage == Storage::kState) {
        if (for_gpu_ && gpu_ == nullptr) continue;  // a plan to be looked at
        tensor = state(attrs);
        TRAINRT_CHECK(
            tensor.defined() && tensor.dtype() == attrs.dtype && tensor.shape() == attrs.shape,
            "state '" + attrs.name + "' is not what the graph expects");
        if (gpu_ != nullptr) {
          block_address[b] = static_cast<std::byte*>(gpu_->context().state().address(tensor));
        }
      } else if (gpu_ != nullptr && on_device(b)) {
        block_address[b] = gpu_->input(booked[b]);
        tensor =
            Tensor::view(gpu_->staging(booked[b]), attrs.dtype, attrs.shape, gpu_->staging_owner());
      } else {
        tensor = Tensor(attrs.dtype, attrs.shape);
      }
    } else if (is_stored_constant(node)) {
      tensor = stored_value(node);
      if (gpu_ != nullptr && on_device(b)) {
        block_address[b] = gpu_->fixed(booked[b]);
        gpu_->fill(booked[b], tensor.raw(), tensor.bytes());
        tensor = Tensor();
      }
    }
  }
  for (size_t b = 0; b < schedule_.blocks.size(); ++b) {
    const Block& block = schedule_.blocks[b];
    if (block.storage == Storage::kOutput) {
      if (!on_device(b)) {
        block_tensor[b] = Tensor(DType::kUInt8, {static_cast<int64_t>(block.bytes)});
      } else if (gpu_ != nullptr) {
        block_address[b] = gpu_->fixed(booked[b]);
      }
    }
    if (block_tensor[b].defined()) keep_.push_back(block_tensor[b]);
  }
  value_tensor_.resize(at(graph_.value_count()));
  device_value_.assign(at(graph_.value_count()), nullptr);
  for (int32_t v = 0; v < graph_.value_count(); ++v) {
    const int32_t block = schedule_.block_of[at(v)];
    if (block < 0) continue;
    device_value_[at(v)] = block_address[at(block)];
    if (!block_tensor[at(block)].defined()) continue;
    const TensorType& type = graph_.type(ValueId{v});
    value_tensor_[at(v)] = Tensor::view(block_tensor[at(block)].raw(), type.dtype, type.shape);
  }
  for (size_t p = 0; gpu_ != nullptr && p < steps_.size(); ++p) {
    const Node& node = graph_.node(steps_[p].node);
    if (!is_state_update(node.op)) continue;
    for (ValueId v : node.outputs) changes_.emplace_back(p, device_value_[at(v.index)]);
  }
  fetched_.resize(graph_.outputs().size());
}

Operand Plan::operand(ValueId v) const {
  const Side own = side(v);
  if (device_value_[at(v.index)] != nullptr) return {device_value_[at(v.index)], 0, own};
  if (own == Side::kHost && value_tensor_[at(v.index)].defined()) {
    return {static_cast<std::byte*>(const_cast<void*>(value_tensor_[at(v.index)].raw())), 0, own};
  }
  const int32_t block = schedule_.block_of[at(v.index)];
  TRAINRT_CHECK(block >= 0, "a value without storage");
  return {nullptr, block_offset_[at(block)], own};
}

std::string_view Plan::kernel_name(size_t step) const {
  const size_t node = at(steps_[step].node.index);
  if (graph_.node(steps_[step].node).op == Op::kTransfer) return "transfer";
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
  if (!v) return {};
  if (gpu_ != nullptr) {
    gpu_->open_staging();
    // Copies of what host nodes read may be on their way.
    if (side(v) == Side::kHost) gpu_->context().compute().synchronize();
  }
  return value_tensor_[at(v.index)];
}

Tensor Plan::output(std::string_view name, OutputRole role) const {
  const ValueId v = graph_.find_output(name, role);
  if (!v) return {};
  if (gpu_ == nullptr) return value_tensor_[at(v.index)];
  GpuContext& context = gpu_->context();
  if (side(v) == Side::kHost) {
    context.finish();
    return value_tensor_[at(v.index)];
  }
  size_t number = 0;
  while (graph_.outputs()[number].name != name || graph_.outputs()[number].role != role) ++number;
  Tensor& host = fetched_[number];
  const TensorType& type = graph_.type(v);
  if (!host.defined()) host = Tensor(type.dtype, type.shape);
  context.compute().copy_to_host(host.raw(), device_value_[at(v.index)], host.bytes());
  context.finish();
  return host;
}

const void* Plan::device_output(std::string_view name, OutputRole role) const {
  const ValueId v = graph_.find_output(name, role);
  return v && gpu_ != nullptr ? device_value_[at(v.index)] : nullptr;
}

void Plan::note_changes(size_t first, size_t last) const {
  for (const auto& [step, address] : changes_) {
    if (step >= first && step < last) gpu_->context().state().changed_on_device(address);
  }
}

std::string Plan::transfer_text() const {
  if (!for_gpu_) return {};
  size_t nodes = 0, bytes = 0;
  for (const Node& node : graph_.nodes()) {
    if (node.op != Op::kTransfer) continue;
    ++nodes;
    bytes += graph_.type(node.outputs[0]).bytes();
  }
  return "; " + std::to_string(nodes) + " transfers of " + std::to_string(bytes) + " bytes";
}

std::string Plan::text() const {
  std::string text;
  auto place = [&](ValueId v) {
    std::string s = "%" + std::to_string(v.index) + ":" + to_string(graph_.type(v));
    const int32_t b = schedule_.block_of[at(v.index)];
    if (b < 0) return s;
    const Storage storage = schedule_.blocks[at(b)].storage;
    s += "@";
    if (for_gpu_) s += side(v) == Side::kHost ? "host:" : "cuda:";
    s += storage_name(storage);
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
  text +=
      "arena " + std::to_string(arena_bytes_) + " bytes, lower bound " +
      std::to_string(lower_bound_) +
      (host_arena_bytes_ == 0 ? std::string()
                              : "; on the host " + std::to_string(host_arena_bytes_) + " bytes") +
      "; fixed " + std::to_string(fixed_bytes_) + " bytes; " + std::to_string(flops_) + " flops; " +
      std::to_string(std::count_if(graph_.nodes().begin(), graph_.nodes().end(),
                                   [](const Node& n) { return n.op == Op::kReorder; })) +
      " reorders" + transfer_text() + "\n";
  return text;
}

}  // namespace trainrt
