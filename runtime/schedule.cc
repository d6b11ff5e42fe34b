#include "runtime/schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr int32_t kNever = -1;
constexpr int32_t kAlways = std::numeric_limits<int32_t>::max();
constexpr size_t kStoredFill = 4096;

size_t at(int32_t index) { return static_cast<size_t>(index); }

// The state that output k of a state update is stored in: a number of an input, or -1.
int32_t updated_input(const Node& node, size_t k) {
  if (k == 0) return 0;
  return node.op == Op::kOptimizerUpdate ? static_cast<int32_t>(k) + 3 : -1;
}

class Scheduler {
 public:
  Scheduler(const Graph& graph, std::span<const Assignment> rows, const ScheduleOptions& options)
      : graph_(graph), rows_(rows), options_(options) {}

  Schedule run() {
    find_last_readers();
    share_storage();
    order_nodes();
    find_lifetimes();
    if (options_.in_place) overwrite_operands();
    number_blocks();
    return std::move(schedule_);
  }

 private:
  // Position in storage order of the last node that reads a value or a view of it.
  void find_last_readers() {
    last_reader_.assign(at(graph_.value_count()), kNever);
    for (const Output& o : graph_.outputs()) {
      if (o.role != OutputRole::kState) last_reader_[at(o.value.index)] = kAlways;
    }
    for (int32_t i = graph_.node_count() - 1; i >= 0; --i) {
      const Node& node = graph_.node(NodeId{i});
      for (ValueId v : node.inputs) {
        int32_t& last = last_reader_[at(v.index)];
        last = std::max(last, i);
        if (is_view(node.op)) last = std::max(last, last_reader_[at(node.outputs[0].index)]);
      }
    }
  }

  int32_t root(int32_t value) const {
    while (parent_[at(value)] != value) value = parent_[at(value)];
    return value;
  }

  // Unites values that share bytes; a root is the first value of its group.
  void share_storage() {
    const size_t values = at(graph_.value_count());
    parent_.resize(values);
    std::iota(parent_.begin(), parent_.end(), 0);
    group_.assign(values, Block{});
    schedule_.copies.assign(at(graph_.node_count()), false);
    runs_.assign(at(graph_.node_count()), false);

    updated_at_.assign(values, kAlways);
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!is_state_update(node.op)) continue;
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        const int32_t from = updated_input(node, k);
        if (from < 0) continue;
        int32_t& position = updated_at_[at(node.inputs[at(from)].index)];
        position = std::min(position, i);
      }
    }

    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      for (ValueId v : node.outputs) group_[at(v.index)].bytes = graph_.type(v).bytes();
      if (node.op == Op::kInput) {
        const auto& attrs = std::get<InputAttrs>(node.attrs);
        group_[at(node.outputs[0].index)].storage =
            is_state(attrs) ? Storage::kState : Storage::kInput;
      } else if (is_stored_constant(node)) {
        group_[at(node.outputs[0].index)].storage = Storage::kConstant;
      } else if (is_view(node.op)) {
        const int32_t source = root(node.inputs[0].index), view = node.outputs[0].index;
        // Once its state is updated, a view would show the new value.
        const bool stale = group_[at(source)].storage == Storage::kState &&
                           last_reader_[at(view)] >= updated_at_[at(source)];
        if (options_.share_views && !stale) {
          parent_[at(view)] = source;
        } else {
          schedule_.copies[at(i)] = true;
          runs_[at(i)] = true;
        }
      } else {
        runs_[at(i)] = true;
        if (!is_state_update(node.op)) continue;
        for (size_t k = 0; k < node.outputs.size(); ++k) {
          const int32_t from = updated_input(node, k);
          TRAINRT_CHECK(from >= 0, "a state update with an output that is no state");
          const int32_t state = root(node.inputs[at(from)].index);
          TRAINRT_CHECK(group_[at(state)].storage == Storage::kState,
                        describe(graph_, NodeId{i}) + " updates what is no state");
          parent_[at(node.outputs[k].index)] = state;
        }
      }
    }
    for (const Output& o : graph_.outputs()) {
      Block& block = group_[at(root(o.value.index))];
      if (o.role != OutputRole::kState && block.storage == Storage::kArena) {
        block.storage = Storage::kOutput;
      }
    }
  }

  // Nodes whose results a node reads, and for state updates the other readers of the old value.
  std::vector<std::vector<int32_t>> predecessors() const {
    std::vector<std::vector<int32_t>> result(at(graph_.node_count()));
    // Readers of each group while it holds its first value.
    std::vector<std::vector<int32_t>> old_readers(at(graph_.value_count()));
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      if (!runs_[at(i)]) continue;
      for (ValueId v : graph_.node(NodeId{i}).inputs) {
        ValueId real = v;
        NodeId producer = graph_.value(real).producer;
        while (!runs_[at(producer.index)] && is_view(graph_.node(producer).op)) {
          real = graph_.node(producer).inputs[0];
          producer = graph_.value(real).producer;
        }
        if (runs_[at(producer.index)]) result[at(i)].push_back(producer.index);
        if (root(real.index) == real.index) old_readers[at(real.index)].push_back(i);
      }
    }
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!runs_[at(i)] || !is_state_update(node.op)) continue;
      for (ValueId v : node.outputs) {
        for (int32_t reader : old_readers[at(root(v.index))]) {
          if (reader != i) result[at(i)].push_back(reader);
        }
      }
    }
    return result;
  }

  void order_nodes() {
    const auto preds = predecessors();
    std::vector<int32_t> main, update;
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      if (!runs_[at(i)]) continue;
      const bool late = graph_.node(NodeId{i}).section == Section::kUpdate;
      (late ? update : main).push_back(i);
    }
    std::stable_sort(main.begin(), main.end(), [&](int32_t a, int32_t b) {
      return graph_.node(NodeId{a}).section < graph_.node(NodeId{b}).section;
    });

    std::vector<int32_t> order;
    if (!options_.interleave_updates) {
      order = main;
      order.insert(order.end(), update.begin(), update.end());
    } else {
      order = interleave(main, update, preds);
    }
    position_.assign(at(graph_.node_count()), kNever);
    for (size_t p = 0; p < order.size(); ++p) {
      for (int32_t before : preds[at(order[p])]) {
        TRAINRT_CHECK(position_[at(before)] != kNever, describe(graph_, NodeId{order[p]}) +
                                                           " cannot run after " +
                                                           describe(graph_, NodeId{before}));
      }
      position_[at(order[p])] = static_cast<int32_t>(p);
      schedule_.order.push_back(NodeId{order[p]});
    }
  }

  // An update node could run behind main position `ready` (the latest it waits for). It is wanted
  // where the first state update that needs it is ready: not earlier, or its result would lie
  // around.
  std::vector<int32_t> interleave(const std::vector<int32_t>& main,
                                  const std::vector<int32_t>& update,
                                  const std::vector<std::vector<int32_t>>& preds) const {
    std::vector<int32_t> ready(at(graph_.node_count()), kNever);
    for (size_t p = 0; p < main.size(); ++p) ready[at(main[p])] = static_cast<int32_t>(p);
    for (int32_t i : update) {
      for (int32_t before : preds[at(i)]) ready[at(i)] = std::max(ready[at(i)], ready[at(before)]);
    }
    std::vector<int32_t> wanted(at(graph_.node_count()), kAlways);
    for (auto it = update.rbegin(); it != update.rend(); ++it) {
      int32_t& own = wanted[at(*it)];
      if (own == kAlways || is_state_update(graph_.node(NodeId{*it}).op)) {
        own = std::min(own, ready[at(*it)]);
      }
      for (int32_t before : preds[at(*it)]) wanted[at(before)] = std::min(wanted[at(before)], own);
    }
    std::vector<int32_t> moved = update;
    std::stable_sort(moved.begin(), moved.end(),
                     [&](int32_t a, int32_t b) { return wanted[at(a)] < wanted[at(b)]; });
    std::vector<int32_t> order;
    order.reserve(main.size() + update.size());
    size_t next = 0;
    for (int32_t p = kNever; p < static_cast<int32_t>(main.size()); ++p) {
      if (p >= 0) order.push_back(main[at(p)]);
      while (next < moved.size() && wanted[at(moved[next])] <= p) order.push_back(moved[next++]);
    }
    return order;
  }

  void find_lifetimes() {
    for (Block& b : group_) b.first = kAlways, b.last = kNever;
    used_.assign(group_.size(), false);
    auto touch = [&](ValueId v, int32_t position) {
      Block& b = group_[at(root(v.index))];
      b.first = std::min(b.first, position);
      b.last = std::max(b.last, position);
      used_[at(root(v.index))] = true;
    };
    for (size_t p = 0; p < schedule_.order.size(); ++p) {
      const Node& node = graph_.node(schedule_.order[p]);
      for (ValueId v : node.outputs) touch(v, static_cast<int32_t>(p));
      for (ValueId v : node.inputs) touch(v, static_cast<int32_t>(p));
    }
    // Inputs are there even when nobody reads them, and an output may be an input itself.
    for (NodeId id : graph_.inputs()) used_[at(root(graph_.node(id).outputs[0].index))] = true;
    for (const Output& o : graph_.outputs()) used_[at(root(o.value.index))] = true;
  }

  void overwrite_operands() {
    for (size_t p = 0; p < schedule_.order.size(); ++p) {
      const NodeId id = schedule_.order[p];
      const Node& node = graph_.node(id);
      const KernelRow* row = rows_[at(id.index)].row;
      if (row == nullptr || !row->in_place || schedule_.copies[at(id.index)] ||
          is_state_update(node.op)) {
        continue;
      }
      const int32_t out = root(node.outputs[0].index);
      const Storage storage = group_[at(out)].storage;
      if (storage != Storage::kArena && storage != Storage::kOutput) continue;
      for (ValueId v : node.inputs) {
        const int32_t in = root(v.index);
        const Block& dying = group_[at(in)];
        if (in == out || dying.storage != Storage::kArena ||
            dying.last != static_cast<int32_t>(p) ||
            graph_.type(v).bytes() != graph_.type(node.outputs[0]).bytes() ||
            graph_.type(v).stored_size() != graph_.type(node.outputs[0]).stored_size() ||
            dying.bytes != group_[at(out)].bytes) {
          continue;
        }
        const auto reads = std::count_if(node.inputs.begin(), node.inputs.end(),
                                         [&](ValueId w) { return root(w.index) == in; });
        if (reads > 1 && !is_elementwise(node.op)) continue;
        Block& merged = group_[at(in)];
        merged.storage = storage;
        merged.last = std::max(merged.last, group_[at(out)].last);
        parent_[at(out)] = in;
        break;
      }
    }
  }

  void number_blocks() {
    std::vector<int32_t> number(group_.size(), -1);
    schedule_.block_of.assign(group_.size(), -1);
    for (int32_t v = 0; v < graph_.value_count(); ++v) {
      const int32_t r = root(v);
      if (!used_[at(r)] && !used_[at(v)]) continue;
      if (number[at(r)] < 0) {
        number[at(r)] = static_cast<int32_t>(schedule_.blocks.size());
        schedule_.blocks.push_back(group_[at(r)]);
      }
      schedule_.block_of[at(v)] = number[at(r)];
    }
  }

  const Graph& graph_;
  std::span<const Assignment> rows_;
  const ScheduleOptions options_;
  std::vector<int32_t> last_reader_, parent_, updated_at_, position_;
  std::vector<Block> group_;
  std::vector<bool> runs_, used_;
  Schedule schedule_;
};

}  // namespace

bool is_state(const InputAttrs& input) {
  switch (input.role) {
    case InputRole::kParameter:
    case InputRole::kBuffer:
    case InputRole::kOptimizerState:
      return true;
    case InputRole::kGradient:
      return input.name.starts_with("acc/") || input.name.starts_with("grad/");
    default:
      return false;
  }
}

bool is_stored_constant(const Node& node) {
  if (node.op == Op::kConstant) return true;
  if (node.op != Op::kFill) return false;
  const auto& fill = std::get<FillAttrs>(node.attrs);
  return TensorType{fill.dtype, fill.shape}.bytes() <= kStoredFill;
}

Schedule make_schedule(const Graph& graph, std::span<const Assignment> rows,
                       const ScheduleOptions& options) {
  return Scheduler(graph, rows, options).run();
}

}  // namespace trainrt
