// Which values the forward section leaves to the backward section, and which nodes make the others
// again. A minimum cut between what cannot be made again and what the backward section reads: a
// value that is kept costs its bytes, a node that runs again its price.
#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "graph/graph_copy.h"
#include "graph/passes/passes.h"

namespace trainrt {
namespace {

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

class Recompute final : public Pass {
 public:
  Recompute(RecomputeOptions options, RecomputeReport* report)
      : options_(std::move(options)), report_(report) {}
  std::string_view name() const override { return "recompute"; }

  bool run(Graph& graph) override {
    *report_ = {};
    find_forward(graph);
    find_possible(graph);
    const std::vector<bool> again = choose(graph);
    if (report_->values == 0) return false;
    clone(graph, again);
    return true;
  }

 private:
  static bool is_forward(const Graph& graph, ValueId v) {
    return graph.producer(v).section == Section::kForward;
  }
  static ValueId root(const Graph& graph, ValueId v) {
    while (is_view(graph.producer(v).op)) v = graph.producer(v).inputs[0];
    return v;
  }

  void find_forward(const Graph& graph) {
    free_.assign(at(graph.value_count()), false);
    changes_.assign(at(graph.value_count()), false);
    for (const Output& o : graph.outputs()) free_[at(root(graph, o.value).index)] = true;
    for (const Node& node : graph.nodes()) {
      const bool source = node.op == Op::kInput || node.op == Op::kConstant || node.op == Op::kFill;
      for (ValueId v : node.outputs) free_[at(v.index)] = free_[at(v.index)] || source;
      if (is_state_update(node.op) && node.section != Section::kUpdate) {
        for (ValueId v : node.inputs) changes_[at(v.index)] = true;
      }
    }
    for (const Node& node : graph.nodes()) {
      if (!is_view(node.op)) continue;
      const size_t from = at(node.inputs[0].index), to = at(node.outputs[0].index);
      free_[to] = free_[to] || free_[from];
      changes_[to] = changes_[to] || changes_[from];
    }
  }

  /// Values that cross the borders between segments, which lie where the fewest bytes cross.
  std::vector<bool> border_values(const Graph& graph) const {
    std::vector<bool> border(at(graph.value_count()));
    if (options_.segment_bytes <= 0) return border;
    std::vector<int32_t> last_read(at(graph.value_count()), -1);
    std::vector<int64_t> made(at(graph.node_count())), crossing(at(graph.node_count()) + 1);
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.section != Section::kForward || is_view(node.op)) continue;
      for (ValueId v : node.inputs) last_read[at(root(graph, v).index)] = i;
    }
    const auto crosses = [&](ValueId v) {
      return !free_[at(v.index)] && !is_view(graph.producer(v).op) && last_read[at(v.index)] >= 0;
    };
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      for (ValueId v : graph.node(NodeId{i}).outputs) {
        if (!crosses(v)) continue;
        const auto bytes = static_cast<int64_t>(graph.type(v).bytes());
        made[at(i)] += bytes;
        crossing[at(i)] += bytes;
        crossing[at(last_read[at(v.index)])] -= bytes;
      }
    }
    for (size_t i = 1; i < crossing.size(); ++i) crossing[i] += crossing[i - 1];
    std::vector<int32_t> borders;
    int64_t bytes = 0;
    int32_t best = -1;
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      if (graph.node(NodeId{i}).section != Section::kForward) continue;
      bytes += made[at(i)];
      if (made[at(i)] > 0 && 2 * bytes > options_.segment_bytes &&
          (best < 0 || crossing[at(i)] <= crossing[at(best)])) {
        best = i;
      }
      if (bytes < options_.segment_bytes || best < 0) continue;
      borders.push_back(best);
      i = best;
      bytes = 0;
      best = -1;
    }
    for (int32_t v = 0; v < graph.value_count(); ++v) {
      if (!crosses(ValueId{v})) continue;
      const auto next =
          std::lower_bound(borders.begin(), borders.end(), graph.value(ValueId{v}).producer.index);
      border[at(v)] = next != borders.end() && *next < last_read[at(v)];
    }
    return border;
  }

  void find_possible(const Graph& graph) {
    const std::vector<bool> border = border_values(graph);
    cost_.assign(at(graph.node_count()), -1);
    std::vector<int32_t> depth(at(graph.value_count()));
    for (int32_t i = 0; i < graph.node_count(); ++i) {
      const Node& node = graph.node(NodeId{i});
      if (node.section != Section::kForward || has_effects(node.op)) continue;
      const int64_t cost = is_view(node.op) ? 0 : options_.cost(graph, node);
      int32_t deepest = 0;
      bool ok = cost >= 0;
      for (ValueId v : node.inputs) {
        deepest = std::max(deepest, depth[at(v.index)]);
        ok = ok && !changes_[at(v.index)];
      }
      for (ValueId v : node.outputs) ok = ok && !border[at(v.index)];
      if (!is_view(node.op)) ++deepest;
      if (!ok || deepest > options_.max_depth) continue;
      cost_[at(i)] = cost;
      for (ValueId v : node.outputs) depth[at(v.index)] = deepest;
    }
  }

  /// By ValueId: whether the backward section makes the value again.
  std::vector<bool> choose(const Graph& graph) {
    std::vector<bool> again(at(graph.value_count()));
    Flow flow;
    const int32_t source = flow.add_vertex(), sink = flow.add_vertex();
    std::unordered_map<ValueId, int32_t> entry;      // of a value; its exit is the next vertex
    std::unordered_map<int32_t, int32_t> run_again;  // by node
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
    std::unordered_set<ValueId> read, stored;
    int64_t before = 0;
    for (const Node& node : graph.nodes()) {
      if (node.section == Section::kForward) continue;
      for (ValueId v : node.inputs) {
        if (!is_forward(graph, v) || free_[at(v.index)] || !read.insert(v).second) continue;
        flow.add_edge(vertex_of(v) + 1, sink, kUnlimited);
        const ValueId whole = root(graph, v);
        if (!free_[at(whole.index)] && stored.insert(whole).second) {
          before += static_cast<int64_t>(graph.type(whole).bytes());
        }
      }
    }
    while (!stack.empty()) {
      const ValueId v = stack.back();
      stack.pop_back();
      const int32_t producer = graph.value(v).producer.index;
      if (cost_[at(producer)] < 0) {
        flow.add_edge(source, entry.at(v), kUnlimited);
        continue;
      }
      const auto [it, fresh] = run_again.try_emplace(producer, 0);
      if (fresh) {
        it->second = flow.add_vertex();
        const double price = static_cast<double>(cost_[at(producer)]) * options_.weight;
        if (price >= 1) flow.add_edge(source, it->second, static_cast<int64_t>(price));
        for (ValueId in : graph.producer(v).inputs) {
          if (!free_[at(in.index)]) flow.add_edge(vertex_of(in) + 1, it->second, kUnlimited);
        }
      }
      flow.add_edge(it->second, entry.at(v), kUnlimited);
    }
    if (flow.run(source, sink) >= before) return again;
    const std::vector<bool> side = flow.sink_side(sink);
    int64_t kept = 0;
    for (const auto& [v, vertex] : entry) {
      again[at(v.index)] = side[at(vertex)];
      if (is_view(graph.producer(v).op)) continue;
      if (side[at(vertex)]) {
        ++report_->values;
      } else if (side[at(vertex + 1)]) {
        kept += static_cast<int64_t>(graph.type(v).bytes());
      }
    }
    for (const auto& [node, vertex] : run_again) {
      if (side[at(vertex)]) report_->cost += cost_[at(node)];
    }
    report_->bytes = before - kept;
    return again;
  }

  /// A BatchNorm's result from the statistics that it has found already.
  template <typename F>
  static ValueId apply_norm(GraphCopy& copy, const Node& norm, const F& seen) {
    std::vector<ValueId> inputs;
    for (ValueId v : norm.inputs) inputs.push_back(seen(v));
    const ValueId y = copy.mapped(norm.outputs[0]);
    inputs.insert(inputs.begin() + 3, {copy.mapped(norm.outputs[1]), copy.mapped(norm.outputs[2])});
    Graph& fresh = copy.graph();
    const NodeId id = fresh.add_node(Op::kBatchNormApply, std::move(inputs), norm.attrs,
                                     {fresh.type(y)}, Section::kBackward, norm.source);
    return fresh.node(id).outputs[0];
  }

  static void clone(Graph& graph, const std::vector<bool>& again) {
    GraphCopy copy(graph);
    std::vector<ValueId> cloned(at(graph.value_count()));
    const auto seen_behind = [&](ValueId v) {
      return again[at(v.index)] && cloned[at(v.index)] ? cloned[at(v.index)] : copy.mapped(v);
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
        if (node.op == Op::kBatchNorm) {
          for (ValueId out : node.outputs) cloned[at(out.index)] = copy.mapped(out);
          const ValueId y = node.outputs[0];
          if (again[at(y.index)]) cloned[at(y.index)] = apply_norm(copy, node, seen_behind);
          continue;
        }
        Node clone = node;
        clone.section = Section::kBackward;
        for (ValueId& in : clone.inputs) in = seen_behind(in);
        const std::vector<ValueId> made = copy.add(std::move(clone));
        for (size_t k = 0; k < made.size(); ++k) cloned[at(node.outputs[k].index)] = made[k];
      }
    };
    for (const Node& node : graph.nodes()) {
      const bool behind = node.section != Section::kForward;
      for (ValueId v : node.inputs) {
        if (behind && again[at(v.index)] && !cloned[at(v.index)]) make_again(v);
      }
      Node made = node;
      for (ValueId& in : made.inputs) in = behind ? seen_behind(in) : copy.mapped(in);
      copy.place(std::move(made));
    }
    graph = copy.finish();
  }

  const RecomputeOptions options_;
  RecomputeReport* report_;
  /// By ValueId: takes no room of its own across the sections; is state that changes before it is
  /// read.
  std::vector<bool> free_, changes_;
  std::vector<int64_t> cost_;  // by NodeId; -1: never runs again
};

}  // namespace

std::unique_ptr<Pass> make_recompute_pass(RecomputeOptions options, RecomputeReport* report) {
  return std::make_unique<Recompute>(std::move(options), report);
}

}  // namespace trainrt
