#include "runtime/placement.h"

#include "graph/graph_copy.h"
#include "runtime/schedule.h"

namespace trainrt {
namespace {

size_t at(int32_t index) { return static_cast<size_t>(index); }

Side other(Side side) { return side == Side::kDevice ? Side::kHost : Side::kDevice; }

class SidePass {
 public:
  SidePass(const Graph& graph, const RowTable& device, const RowTable* host, Diagnostics& problems)
      : graph_(graph), device_(device), host_(host), problems_(problems), copy_(graph) {}

  Placement run(Graph& result) {
    choose();
    crossed_.resize(at(graph_.value_count()));
    for (int32_t i = 0; i < graph_.node_count(); ++i) place(NodeId{i});
    result = copy_.finish();
    return std::move(placement_);
  }

 private:
  // By old NodeId: sides and rows of nodes that run, then of what follows its readers or operand.
  void choose() {
    sides_.assign(at(graph_.node_count()), Side::kDevice);
    rows_.resize(at(graph_.node_count()));
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (node.op == Op::kInput || is_stored_constant(node) || is_view(node.op)) continue;
      sides_[at(i)] = find_row(NodeId{i});
    }
    // Who reads a value, or a view of it.
    std::vector<bool> on_device(at(graph_.value_count())), on_host(at(graph_.value_count()));
    for (int32_t i = graph_.node_count() - 1; i >= 0; --i) {
      const Node& node = graph_.node(NodeId{i});
      for (ValueId v : node.inputs) {
        const bool view = is_view(node.op), host = sides_[at(i)] == Side::kHost;
        const size_t own = view ? at(node.outputs[0].index) : 0;
        on_host[at(v.index)] = on_host[at(v.index)] || (view ? on_host[own] : host);
        on_device[at(v.index)] = on_device[at(v.index)] || (view ? on_device[own] : !host);
      }
    }
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      const bool follows_readers =
          is_stored_constant(node) ||
          (node.op == Op::kInput && !is_state(std::get<InputAttrs>(node.attrs)));
      if (!follows_readers) continue;
      const ValueId v = node.outputs[0];
      // An input that both read is copied by a Transfer instead of with the other inputs.
      const bool host = node.op == Op::kInput ? on_host[at(v.index)]
                                              : on_host[at(v.index)] && !on_device[at(v.index)];
      if (host) sides_[at(i)] = Side::kHost;
    }
    // Views run where their operand lies; only copied ones have a kernel, a plain copy.
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      if (!is_view(node.op)) continue;
      sides_[at(i)] = sides_[at(graph_.value(node.inputs[0]).producer.index)];
    }
  }

  Side find_row(NodeId id) {
    const Node& node = graph_.node(id);
    const NodeTypes types(graph_, node);
    Assignment& row = rows_[at(id.index)];
    row = device_.find(types.view(node));
    if (row.row != nullptr) return Side::kDevice;
    if (host_ != nullptr && !is_state_update(node.op)) {
      Assignment fallback = host_->find(types.view(node));
      if (fallback.row != nullptr) {
        fallback.refusals.insert(fallback.refusals.begin(), row.refusals.begin(),
                                 row.refusals.end());
        row = std::move(fallback);
        return Side::kHost;
      }
    }
    problems_.add(no_kernel(graph_, id, row, "no CUDA kernel"));
    return Side::kDevice;
  }

  /// The fresh value of `old` on a side.
  ValueId on_side(ValueId old, Side side, const Node& reader) {
    Graph& fresh = copy_.graph();
    const ValueId own = copy_.mapped(old);
    const NodeId producer = fresh.value(own).producer;
    if (placement_.sides[at(producer.index)] == side) return own;
    ValueId& crossed = crossed_[at(old.index)];
    if (!crossed || fresh.producer(crossed).section > reader.section) {
      const Node& made = fresh.node(producer);
      NodeId id;
      if (is_stored_constant(made)) {
        id = fresh.add_node(made.op, {}, made.attrs, {fresh.type(own)}, made.section, made.source);
      } else {
        id = fresh.add_node(Op::kTransfer, {own}, TransferAttrs{side == Side::kHost},
                            {fresh.type(own)}, reader.section, reader.source);
      }
      note(id, side, {});
      crossed = fresh.node(id).outputs[0];
    }
    return crossed;
  }

  void note(NodeId id, Side side, Assignment row) {
    TRAINRT_CHECK(at(id.index) == placement_.sides.size(), "nodes are noted as they are made");
    placement_.sides.push_back(side);
    placement_.rows.push_back(std::move(row));
  }

  void place(NodeId id) {
    const Node& node = graph_.node(id);
    Side side = sides_[at(id.index)];
    Node made = node;
    for (ValueId& v : made.inputs) v = on_side(v, side, node);
    copy_.place(std::move(made));
    note(NodeId{copy_.graph().node_count() - 1}, side, std::move(rows_[at(id.index)]));
  }

  const Graph& graph_;
  const RowTable& device_;
  const RowTable* host_;
  Diagnostics& problems_;
  GraphCopy copy_;
  std::vector<Side> sides_;
  std::vector<Assignment> rows_;
  std::vector<ValueId> crossed_;  // by old ValueId: its copy on the other side
  Placement placement_;
};

}  // namespace

Placement assign_sides(Graph& graph, const RowTable& device, const RowTable* host,
                       Diagnostics& problems) {
  Graph placed;
  Placement placement = SidePass(graph, device, host, problems).run(placed);
  graph = std::move(placed);
  return placement;
}

void verify_sides(const Graph& graph, const std::vector<Side>& sides) {
  TRAINRT_CHECK(sides.size() == at(graph.node_count()), "every node has a side");
  for (int32_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId{i});
    const Side own = sides[at(i)];
    const Side wanted = node.op == Op::kTransfer ? other(own) : own;
    if (node.op == Op::kTransfer) {
      TRAINRT_CHECK(std::get<TransferAttrs>(node.attrs).to_host == (own == Side::kHost),
                    describe(graph, NodeId{i}) + " goes to the side it is on");
    }
    for (ValueId v : node.inputs) {
      TRAINRT_CHECK(
          sides[at(graph.value(v).producer.index)] == wanted,
          describe(graph, NodeId{i}) + " reads %" + std::to_string(v.index) + " of the other side");
    }
  }
}

}  // namespace trainrt
