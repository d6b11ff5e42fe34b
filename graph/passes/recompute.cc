// Which values the forward section leaves to the backward section: those of the fewest bytes from
// which cheap elementwise nodes make the others again. A minimum cut between what cannot be made
// again and what the backward section reads; the capacity of a value is its bytes.
#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "graph/passes/passes.h"

namespace trainrt {
namespace {

// Of a chain that is made again: its values live on until their readers, so long ones gain nothing.
constexpr int32_t kMaxDepth = 8;
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max() / 4;

size_t at(int32_t index) { return static_cast<size_t>(index); }

/// Maximum flow by Dinic's algorithm.
class Flow {
 public:
  int32_t add_vertex() {
    edges_of_.emplace_back();
    return static_cast<int32_t>(edges_of_.size()) - 1;
  }
  void add_edge(int32_t from, int32_t to, int64_t capacity) {
    edges_of_[at(from)].push_back(static_cast<int32_t>(edges_.size()));
    edges_.push_back({to, capacity});
    edges_of_[at(to)].push_back(static_cast<int32_t>(edges_.size()));
    edges_.push_back({from, 0});
  }

  int64_t run(int32_t source, int32_t sink) {
    int64_t total = 0;
    while (find_levels(source, sink)) {
      next_.assign(edges_of_.size(), 0);
      while (const int64_t pushed = push(source, sink)) total += pushed;
    }
    return total;
  }

  /// Vertices from which `sink` can still be reached: its side of the cut nearest to it.
  std::vector<bool> sink_side(int32_t sink) const {
    std::vector<bool> side(edges_of_.size());
    std::vector<int32_t> stack = {sink};
    side[at(sink)] = true;
    while (!stack.empty()) {
      const int32_t v = stack.back();
      stack.pop_back();
      for (int32_t e : edges_of_[at(v)]) {
        const int32_t from = edges_[at(e)].to;
        if (edges_[at(e ^ 1)].room == 0 || side[at(from)]) continue;
        side[at(from)] = true;
        stack.push_back(from);
      }
    }
    return side;
  }

 private:
  struct Edge {
    int32_t to;
    int64_t room;
  };

  bool find_levels(int32_t source, int32_t sink) {
    level_.assign(edges_of_.size(), -1);
    level_[at(source)] = 0;
    std::deque<int32_t> queue = {source};
    while (!queue.empty()) {
      const int32_t v = queue.front();
      queue.pop_front();
      for (int32_t e : edges_of_[at(v)]) {
        const Edge& edge = edges_[at(e)];
        if (edge.room == 0 || level_[at(edge.to)] >= 0) continue;
        level_[at(edge.to)] = level_[at(v)] + 1;
        queue.push_back(edge.to);
      }
    }
    return level_[at(sink)] >= 0;
  }

  /// One path from source to sink, without recursion: chains may be thousands of nodes long.
  int64_t push(int32_t source, int32_t sink) {
    std::vector<int32_t> path;  // edges
    int32_t v = source;
    while (v != sink) {
      size_t& next = next_[at(v)];
      const auto& edges = edges_of_[at(v)];
      while (next < edges.size()) {
        const Edge& edge = edges_[at(edges[next])];
        if (edge.room > 0 && level_[at(edge.to)] == level_[at(v)] + 1) break;
        ++next;
      }
      if (next < edges.size()) {
        path.push_back(edges[next]);
        v = edges_[at(edges[next])].to;
      } else if (path.empty()) {
        return 0;
      } else {
        v = edges_[at(path.back() ^ 1)].to;
        path.pop_back();
        ++next_[at(v)];
      }
    }
    int64_t room = kUnlimited;
    for (int32_t e : path) room = std::min(room, edges_[at(e)].room);
    for (int32_t e : path) {
      edges_[at(e)].room -= room;
      edges_[at(e ^ 1)].room += room;
    }
    return room;
  }

  std::vector<std::vector<int32_t>> edges_of_;
  std::vector<Edge> edges_;
  std::vector<int32_t> level_;
  std::vector<size_t> next_;
};

/// No more than a few instructions an element.
bool is_cheap(Op op) {
  switch (op) {
    case Op::kNeg:
    case Op::kAbs:
    case Op::kSign:
    case Op::kSqrt:
    case Op::kReciprocal:
    case Op::kTanh:
    case Op::kSigmoid:
    case Op::kRelu:
    case Op::kClip:
    case Op::kNot:
    case Op::kIsNaN:
    case Op::kCast:
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kMax:
    case Op::kMin:
    case Op::kEqual:
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kWhere:
      return true;
    default:
      return is_view(op);
  }
}

class Recompute final : public Pass {
 public:
  explicit Recompute(RecomputeReport* report) : report_(report) {}
  std::string_view name() const override { return "recompute"; }

  bool run(Graph& graph) override {
    const std::vector<bool> again = choose(graph);
    if (report_->values == 0) return false;
    clone(graph, again);
    return true;
  }

 private:
  static bool is_forward(const Graph& graph, ValueId v) {
    return graph.producer(v).section == Section::kForward;
  }

  /// By ValueId: whether the backward section makes the value again.
  std::vector<bool> choose(const Graph& graph) {
    *report_ = {};
    std::vector<bool> again(at(graph.value_count()));
    // What takes no room of its own across the boundary, and state that changes before it is read.
    std::vector<bool> free(at(graph.value_count())), changes(at(graph.value_count()));
    for (const Output& o : graph.outputs()) free[at(o.value.index)] = true;
    for (const Node& node : graph.nodes()) {
      const bool source = node.op == Op::kInput || node.op == Op::kConstant || node.op == Op::kFill;
      for (ValueId v : node.outputs) free[at(v.index)] = free[at(v.index)] || source;
      if (is_state_update(node.op) && node.section != Section::kUpdate) {
        for (ValueId v : node.inputs) changes[at(v.index)] = true;
      }
    }
    for (const Node& node : graph.nodes()) {
      if (is_view(node.op) && changes[at(node.inputs[0].index)]) {
        changes[at(node.outputs[0].index)] = true;
      }
    }

    // Nodes that can run again, chains cut where they get too long.
    std::vector<bool> possible(at(graph.node_count()));
    std::vector<int32_t> depth(at(graph.value_count()));
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.section != Section::kForward || !is_cheap(node.op)) continue;
      int32_t deepest = 0;
      bool stable = true;
      for (ValueId v : node.inputs) {
        deepest = std::max(deepest, depth[at(v.index)]);
        stable = stable && !changes[at(v.index)];
      }
      if (!is_view(node.op)) ++deepest;
      if (!stable || deepest > kMaxDepth) continue;
      possible[at(i)] = true;
      depth[at(node.outputs[0].index)] = deepest;
    }

    Flow flow;
    const int32_t source = flow.add_vertex(), sink = flow.add_vertex();
    std::unordered_map<ValueId, int32_t> entry;  // of a value; its exit is the next vertex
    std::vector<ValueId> stack;
    const auto vertex_of = [&](ValueId v) {
      const auto [it, fresh] = entry.try_emplace(v, 0);
      if (fresh) {
        it->second = flow.add_vertex();
        const int32_t exit = flow.add_vertex();
        const bool view = is_view(graph.producer(v).op);
        flow.add_edge(it->second, exit,
                      view ? kUnlimited : static_cast<int64_t>(graph.type(v).bytes()));
        stack.push_back(v);
      }
      return it->second;
    };
    int64_t before = 0;
    std::unordered_set<ValueId> kept;
    for (const Node& node : graph.nodes()) {
      if (node.section == Section::kForward) continue;
      for (ValueId v : node.inputs) {
        if (!is_forward(graph, v) || free[at(v.index)] || !kept.insert(v).second) continue;
        flow.add_edge(vertex_of(v) + 1, sink, kUnlimited);
      }
    }
    std::unordered_set<ValueId> stored;
    for (ValueId v : kept) {
      while (is_view(graph.producer(v).op)) v = graph.producer(v).inputs[0];
      if (!free[at(v.index)] && stored.insert(v).second) {
        before += static_cast<int64_t>(graph.type(v).bytes());
      }
    }
    while (!stack.empty()) {
      const ValueId v = stack.back();
      stack.pop_back();
      const Node& node = graph.producer(v);
      if (!possible[at(graph.value(v).producer.index)]) {
        flow.add_edge(source, entry.at(v), kUnlimited);
        continue;
      }
      for (ValueId in : node.inputs) {
        if (!free[at(in.index)]) flow.add_edge(vertex_of(in) + 1, entry.at(v), kUnlimited);
      }
    }
    const int64_t after = flow.run(source, sink);
    if (after >= before) return again;
    const std::vector<bool> side = flow.sink_side(sink);
    for (const auto& [v, vertex] : entry) {
      if (!side[at(vertex)]) continue;
      again[at(v.index)] = true;
      if (!is_view(graph.producer(v).op)) ++report_->values;
    }
    report_->bytes = before - after;
    return again;
  }

  static void clone(Graph& graph, const std::vector<bool>& again) {
    Graph fresh;
    for (const SourceRef& source : graph.sources()) fresh.add_source(source);
    std::vector<ValueId> mapped(at(graph.value_count())), cloned(at(graph.value_count()));
    const auto add = [&](const Node& node, Section section, auto&& input_of) {
      std::vector<ValueId> inputs;
      std::vector<TensorType> types;
      for (ValueId v : node.inputs) inputs.push_back(input_of(v));
      for (ValueId v : node.outputs) types.push_back(graph.type(v));
      return fresh.add_node(node.op, std::move(inputs), node.attrs, std::move(types), section,
                            node.source);
    };
    const auto seen_behind = [&](ValueId v) {
      return again[at(v.index)] && cloned[at(v.index)] ? cloned[at(v.index)] : mapped[at(v.index)];
    };
    const auto make_again = [&](ValueId wanted) {
      std::vector<ValueId> stack = {wanted};
      while (!stack.empty()) {
        const ValueId v = stack.back();
        const Node& node = graph.producer(v);
        const size_t height = stack.size();
        for (ValueId in : node.inputs) {
          if (again[at(in.index)] && !cloned[at(in.index)]) stack.push_back(in);
        }
        if (stack.size() > height) continue;
        stack.pop_back();
        if (cloned[at(v.index)]) continue;
        const NodeId id = add(node, Section::kBackward, seen_behind);
        cloned[at(v.index)] = fresh.node(id).outputs[0];
        fresh.value(cloned[at(v.index)]).name = graph.value(v).name;
      }
    };
    for (const Node& node : graph.nodes()) {
      const bool behind = node.section != Section::kForward;
      for (ValueId v : node.inputs) {
        if (behind && again[at(v.index)] && !cloned[at(v.index)]) make_again(v);
      }
      const NodeId id = add(node, node.section, [&](ValueId v) {
        return behind ? seen_behind(v) : mapped[at(v.index)];
      });
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        mapped[at(node.outputs[k].index)] = fresh.node(id).outputs[k];
        fresh.value(fresh.node(id).outputs[k]).name = graph.value(node.outputs[k]).name;
      }
    }
    for (const Output& o : graph.outputs()) {
      fresh.add_output(o.name, mapped[at(o.value.index)], o.role);
    }
    graph = std::move(fresh);
  }

  RecomputeReport* report_;
};

}  // namespace

std::unique_ptr<Pass> make_recompute_pass(RecomputeReport* report) {
  return std::make_unique<Recompute>(report);
}

}  // namespace trainrt
