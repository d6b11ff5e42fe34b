// Groups elementwise nodes of one iteration space into Fused nodes.
//
// Every node gets a level, and edges between groups go from lower to higher levels: so the graph of
// groups has no cycles. A node joins the groups of its producers when one level suits all: the
// group can be raised to it as long as it stays below the readers that the group has already.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "graph/fused.h"
#include "graph/graph_copy.h"
#include "graph/infer.h"
#include "graph/passes/passes.h"

namespace trainrt {
namespace {

using Kind = FusedOperand::Kind;

constexpr int32_t kNone = -1;
constexpr int32_t kTop = std::numeric_limits<int32_t>::max();
constexpr int32_t kMaxMembers = 48;

size_t at(int32_t index) { return static_cast<size_t>(index); }

/// Sizes of the blocks that the dims of a shape cut its elements into, from 1 upwards, distinct.
std::vector<int64_t> block_sizes(const Shape& shape) {
  std::vector<int64_t> sizes = {1};
  int64_t size = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    size *= shape[d];
    if (size != sizes.back()) sizes.push_back(size);
  }
  return sizes;
}

struct Group {
  int32_t level = 0, lowest_reader = kTop;
  Section section = Section::kForward;
  int32_t members = 0;
  int32_t last = 0;             // position of the last member
  std::vector<ValueId> inputs;  // intermediate values of full size that members read
  Shape shape;                  // of the iteration space
  std::vector<int64_t> blocks;  // of all members' shapes together
};

/// The union of two lists of block sizes when each divides the next, else empty.
std::vector<int64_t> refine(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  for (size_t i = 1; i < both.size(); ++i) {
    if (both[i] % both[i - 1] != 0) return {};
  }
  return both;
}

class Fuser {
 public:
  Fuser(Graph& graph, const FusedSupport& supports)
      : graph_(graph), supports_(supports), copy_(graph) {}

  bool run() {
    find_groups();
    count_instructions();
    if (std::none_of(instructions_.begin(), instructions_.end(), [](int32_t n) { return n > 1; })) {
      return false;
    }
    build();
    return changed_;
  }

 private:
  // Grouping.

  int32_t find(int32_t group) {
    while (parent_[at(group)] != group) {
      parent_[at(group)] = parent_[at(parent_[at(group)])];
      group = parent_[at(group)];
    }
    return group;
  }

  int32_t group_of(NodeId id) {
    const int32_t group = group_of_node_[at(id.index)];
    return group == kNone ? kNone : find(group);
  }

  int32_t level_of(NodeId id) {
    const int32_t group = group_of(id);
    return group == kNone ? level_[at(id.index)] : groups_[at(group)].level;
  }

  void add_reader(NodeId producer, int32_t level) {
    const int32_t group = group_of(producer);
    if (group != kNone) {
      groups_[at(group)].lowest_reader = std::min(groups_[at(group)].lowest_reader, level);
    }
  }

  static bool is_number(const Node& node) {
    if (node.op == Op::kFill) return std::get<FillAttrs>(node.attrs).dtype == DType::kFloat32;
    if (node.op != Op::kConstant) return false;
    const Tensor& value = std::get<ConstantAttrs>(node.attrs).value;
    return value.dtype() == DType::kFloat32 && value.size() == 1;
  }

  static double number_of(const Node& node) {
    if (node.op == Op::kFill) return std::get<FillAttrs>(node.attrs).value;
    return static_cast<double>(std::get<ConstantAttrs>(node.attrs).value.data<float>()[0]);
  }

  /// Whether the backend has a loop for the node by itself.
  bool has_loop(const Node& node) {
    std::string key = std::to_string(static_cast<int>(node.op));
    for (ValueId v : node.inputs)
      key += " " + std::to_string(static_cast<int>(graph_.type(v).dtype));
    const DType result = graph_.type(node.outputs[0]).dtype;
    key += " " + std::to_string(static_cast<int>(result));
    const auto [it, fresh] = has_loop_.try_emplace(key, false);
    if (fresh) {
      FusedProgram program{{{node.op, node.attrs, {}}}, {0}};
      std::vector<TensorType> in;
      for (ValueId v : node.inputs) {
        program.instructions[0].operands.push_back(
            {Kind::kInput, static_cast<int32_t>(in.size()), 0});
        in.push_back({graph_.type(v).dtype, {2, 3}});
      }
      const TensorType out{result, {2, 3}};
      it->second = supports_(print(program), in, {&out, 1});
    }
    return it->second;
  }

  bool is_candidate(const Node& node) {
    if (node.op == Op::kFused || node.outputs.size() != 1) return false;
    const TensorType& out = graph_.type(node.outputs[0]);
    if (out.layout != Layout::kPlain || out.size() == 0) return false;
    if (is_view(node.op)) return node.op == Op::kReshape;
    if (node.op == Op::kReduceSum) {
      const auto& attrs = std::get<ReduceAttrs>(node.attrs);
      return out.dtype == DType::kFloat32 && !attrs.axes.empty();
    }
    if (!is_elementwise(node.op)) return false;
    bool array = false;
    for (ValueId v : node.inputs) {
      if (graph_.type(v).layout != Layout::kPlain) return false;
      array = array || !is_number(graph_.producer(v));
    }
    return array && has_loop(node);
  }

  void find_groups() {
    const size_t nodes = at(graph_.node_count());
    level_.assign(nodes, 0);
    group_of_node_.assign(nodes, kNone);
    old_readers_.assign(at(graph_.value_count()), {});
    state_of_.resize(at(graph_.value_count()));
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const NodeId id{i};
      const Node& node = graph_.node(id);
      if (node.op == Op::kInput) state_of_[at(node.outputs[0].index)] = node.outputs[0];
      if (is_view(node.op)) {
        state_of_[at(node.outputs[0].index)] = state_of_[at(node.inputs[0].index)];
      }
      before_.clear();
      for (ValueId v : node.inputs) before_.push_back(graph_.value(v).producer);
      if (is_state_update(node.op)) {
        for (ValueId v : node.inputs) {
          const ValueId state = state_of_[at(v.index)];
          if (!state) continue;
          const auto& readers = old_readers_[at(state.index)];
          before_.insert(before_.end(), readers.begin(), readers.end());
        }
        updates_[i] = before_;
      }
      for (ValueId v : node.inputs) {
        if (const ValueId state = state_of_[at(v.index)])
          old_readers_[at(state.index)].push_back(id);
      }
      const bool candidate = is_candidate(node);
      const bool runs = !node.inputs.empty() && !is_view(node.op);
      barriers_.push_back((i == 0 ? 0 : barriers_.back()) + (candidate || !runs ? 0 : 1));
      if (!candidate || !join(id, node)) {
        int32_t level = 0;
        for (NodeId p : before_) level = std::max(level, level_of(p) + 1);
        level_[at(i)] = level;
        for (NodeId p : before_) add_reader(p, level);
      }
    }
  }

  /// The space of a node: what its operands are seen in.
  const Shape& space(const Node& node) const {
    return graph_.type(node.op == Op::kReduceSum ? node.inputs[0] : node.outputs[0]).shape;
  }

  bool join(NodeId id, const Node& node) {
    const Shape& shape = space(node);
    const std::vector<int64_t> blocks = block_sizes(shape);
    std::vector<int32_t> chosen;
    for (ValueId v : node.inputs) {
      const NodeId producer = graph_.value(v).producer;
      const int32_t group = group_of(producer);
      if (group == kNone || std::find(chosen.begin(), chosen.end(), group) != chosen.end())
        continue;
      const Group& g = groups_[at(group)];
      if (g.section != node.section || element_count(g.shape) != element_count(shape)) continue;
      if (element_count(graph_.type(v).shape) != element_count(shape)) continue;
      chosen.push_back(group);
    }
    // A sum cannot be read where it is made.
    for (ValueId v : node.inputs) {
      const NodeId producer = graph_.value(v).producer;
      if (graph_.node(producer).op == Op::kReduceSum) std::erase(chosen, group_of(producer));
    }
    int32_t level = 0;
    std::vector<int64_t> merged;
    while (!chosen.empty()) {
      const auto in_chosen = [&](NodeId p) {
        return std::find(chosen.begin(), chosen.end(), group_of(p)) != chosen.end();
      };
      level = 0;
      for (NodeId p : before_) level = std::max(level, level_of(p) + (in_chosen(p) ? 0 : 1));
      merged = blocks;
      int32_t members = 1, refused = kNone;
      for (int32_t group : chosen) {
        const Group& g = groups_[at(group)];
        members += g.members;
        merged = merged.empty() ? merged : refine(merged, g.blocks);
        const bool fits = level < g.lowest_reader && !merged.empty() && members <= kMaxMembers;
        if (!fits || holds_inputs(g, id)) {
          refused = group;
          break;
        }
      }
      if (refused == kNone) break;
      std::erase(chosen, refused);
    }
    if (chosen.empty()) {
      // A view or a sum by itself is no group.
      if (!is_elementwise(node.op) || is_view(node.op)) return false;
      level = 0;
      for (NodeId p : before_) level = std::max(level, level_of(p) + 1);
      merged = blocks;
      groups_.push_back({level, kTop, node.section, 0, 0, {}, shape, {}});
      parent_.push_back(static_cast<int32_t>(parent_.size()));
      chosen.push_back(parent_.back());
    }
    const int32_t group = chosen[0];
    Group& g = groups_[at(group)];
    for (size_t k = 1; k < chosen.size(); ++k) {
      const Group& other = groups_[at(chosen[k])];
      g.members += other.members;
      g.lowest_reader = std::min(g.lowest_reader, other.lowest_reader);
      g.inputs.insert(g.inputs.end(), other.inputs.begin(), other.inputs.end());
      parent_[at(chosen[k])] = group;
    }
    ++g.members;
    g.last = id.index;
    g.level = level;
    g.blocks = merged;
    group_of_node_[at(id.index)] = group;
    for (NodeId p : before_) {
      if (group_of(p) != group) add_reader(p, level);
    }
    for (ValueId v : node.inputs) {
      const Node& producer = graph_.producer(v);
      const bool full = graph_.type(v).size() == element_count(shape);
      if (full && !producer.inputs.empty() && group_of(graph_.value(v).producer) != group &&
          std::find(g.inputs.begin(), g.inputs.end(), v) == g.inputs.end()) {
        g.inputs.push_back(v);
      }
    }
    return true;
  }

  /// Whether a group that comes as late as `id` would keep several values alive instead of one, as
  /// the terms of a sum over time steps. Where the group has a reader already it comes before that.
  bool holds_inputs(const Group& g, NodeId id) const {
    return g.lowest_reader == kTop && g.inputs.size() > 1 &&
           barriers_[at(id.index)] > barriers_[at(g.last)];
  }

  void count_instructions() {
    instructions_.assign(groups_.size(), 0);
    members_.resize(groups_.size());
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const int32_t group = group_of(NodeId{i});
      if (group == kNone) continue;
      members_[at(group)].push_back(NodeId{i});
      if (!is_view(graph_.node(NodeId{i}).op)) ++instructions_[at(group)];
    }
  }

  // Building the new graph.

  void build() {
    done_.assign(at(graph_.node_count()), false);
    outside_.assign(at(graph_.value_count()), false);
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const int32_t group = fused_group(NodeId{i});
      for (ValueId v : graph_.node(NodeId{i}).inputs) {
        if (group == kNone || fused_group(graph_.value(v).producer) != group)
          outside_[at(v.index)] = true;
      }
    }
    for (const Output& o : graph_.outputs()) outside_[at(o.value.index)] = true;
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const int32_t group = fused_group(NodeId{i});
      // A group comes where its last member was, unless a reader asks for it before.
      if (group == kNone || members_[at(group)].back() == NodeId{i}) emit(NodeId{i});
    }
    graph_ = copy_.finish();
  }

  int32_t fused_group(NodeId id) {
    const int32_t group = group_of(id);
    return group != kNone && instructions_[at(group)] > 1 ? group : kNone;
  }

  void emit(NodeId wanted) {
    std::vector<NodeId> stack = {wanted};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      if (done_[at(id.index)]) {
        stack.pop_back();
        continue;
      }
      const int32_t group = fused_group(id);
      const std::vector<NodeId> own = {id};
      const std::vector<NodeId>& members = group == kNone ? own : members_[at(group)];
      const size_t height = stack.size();
      for (NodeId m : members) {
        const auto wait = [&](NodeId p) {
          if (!done_[at(p.index)] && (group == kNone || fused_group(p) != group))
            stack.push_back(p);
        };
        for (ValueId v : graph_.node(m).inputs) wait(graph_.value(v).producer);
        if (const auto it = updates_.find(m.index); it != updates_.end()) {
          for (NodeId p : it->second) wait(p);
        }
      }
      if (stack.size() > height) continue;
      for (NodeId m : members) done_[at(m.index)] = true;
      if (group == kNone || !emit_fused(group)) {
        for (NodeId m : members) copy_.keep(graph_.node(m));
      } else {
        changed_ = true;
      }
    }
  }

  /// The fresh value itself when it has the shape, else a view of it.
  ValueId viewed(ValueId value, const Shape& shape, const Node& like) {
    const TensorType type = copy_.graph().type(value);
    if (type.shape == shape) return value;
    const NodeId id = copy_.graph().add_node(Op::kReshape, {value}, ShapeAttrs{shape},
                                             {{type.dtype, shape}}, like.section, like.source);
    return copy_.graph().node(id).outputs[0];
  }

  /// A group's space, in dims that suit all members.
  Shape space_of(int32_t group) {
    const Shape& first = space(graph_.node(members_[at(group)][0]));
    const bool same = std::all_of(members_[at(group)].begin(), members_[at(group)].end(),
                                  [&](NodeId m) { return space(graph_.node(m)) == first; });
    if (same) return first;
    const std::vector<int64_t>& blocks = groups_[at(group)].blocks;
    Shape shape;
    for (size_t i = blocks.size() - 1; i > 0; --i) shape.push_back(blocks[i] / blocks[i - 1]);
    return shape;
  }

  /// For each dim of `from` the dims [first, last) of `to` that make it up; `to` is finer.
  static std::vector<std::pair<size_t, size_t>> parts(const Shape& from, const Shape& to) {
    std::vector<std::pair<size_t, size_t>> result(from.size());
    size_t end = to.size();
    for (size_t d = from.size(); d-- > 0;) {
      size_t begin = end;
      int64_t size = 1;
      if (from == to) begin = d, size = from[d];
      while (size < from[d]) size *= to[--begin];
      result[d] = {begin, end};
      end = begin;
    }
    return result;
  }

  /// Shape in the group's space of an operand that a member sees in a space of its own.
  static Shape operand_shape(const Shape& operand, const Shape& own, const Shape& space) {
    Shape result(space.size(), 1);
    const auto dims = parts(own, space);
    const size_t lead = own.size() - operand.size();
    for (size_t d = 0; d < operand.size(); ++d) {
      if (operand[d] == 1) continue;
      for (size_t k = dims[lead + d].first; k < dims[lead + d].second; ++k) result[k] = space[k];
    }
    const size_t ones = static_cast<size_t>(
        std::find_if(result.begin(), result.end(), [](int64_t n) { return n != 1; }) -
        result.begin());
    // Rank as given where nothing changes.
    const size_t cut = own == space ? lead : ones;
    result.erase(result.begin(),
                 result.begin() + static_cast<ptrdiff_t>(std::min(cut, result.size())));
    return result;
  }

  bool emit_fused(int32_t group) {
    const std::vector<NodeId>& members = members_[at(group)];
    const Shape space_shape = space_of(group);
    FusedProgram program;
    std::vector<ValueId> inputs;        // old values
    std::vector<Shape> input_shapes;    // as the program sees them
    std::map<ValueId, int32_t> result;  // old values made here: the instruction
    std::map<std::pair<ValueId, Shape>, int32_t> input_of;
    std::vector<std::pair<ValueId, int32_t>> leaving;
    for (NodeId m : members) {
      const Node& node = graph_.node(m);
      const ValueId out = node.outputs[0];
      if (node.op == Op::kReshape) {
        result[out] = result.at(node.inputs[0]);
        continue;
      }
      FusedInstruction instruction{node.op, node.attrs, {}};
      for (ValueId v : node.inputs) {
        const Node& producer = graph_.producer(v);
        if (const auto it = result.find(v); it != result.end()) {
          instruction.operands.push_back({Kind::kResult, it->second, 0});
        } else if (is_number(producer)) {
          instruction.operands.push_back({Kind::kNumber, 0, number_of(producer)});
        } else {
          Shape shape = operand_shape(graph_.type(v).shape, space(node), space_shape);
          const auto [at_input, fresh] =
              input_of.try_emplace({v, shape}, static_cast<int32_t>(inputs.size()));
          if (fresh) {
            inputs.push_back(v);
            input_shapes.push_back(std::move(shape));
          }
          instruction.operands.push_back({Kind::kInput, at_input->second, 0});
        }
      }
      if (node.op == Op::kReduceSum && space(node) != space_shape) {
        const auto dims = parts(space(node), space_shape);
        ReduceAttrs attrs;
        for (int64_t axis : std::get<ReduceAttrs>(node.attrs).axes) {
          for (size_t k = dims[at(static_cast<int32_t>(axis))].first;
               k < dims[at(static_cast<int32_t>(axis))].second; ++k) {
            attrs.axes.push_back(static_cast<int64_t>(k));
          }
        }
        instruction.attrs = attrs;
      }
      result[out] = static_cast<int32_t>(program.instructions.size());
      program.instructions.push_back(std::move(instruction));
    }
    std::map<int32_t, size_t> number_of_result;
    for (const auto& [v, i] : result) {
      if (!outside_[at(v.index)]) continue;
      leaving.emplace_back(v, i);
      if (number_of_result.try_emplace(i, program.results.size()).second)
        program.results.push_back(i);
    }
    if (leaving.empty()) return false;

    std::vector<TensorType> in_types, out_types;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in_types.push_back({graph_.type(inputs[i]).dtype, input_shapes[i]});
    }
    const std::string text = print(program);
    const FusedTypes types = fused_types(program, in_types);
    if (types.shape != space_shape) return false;
    for (int32_t i : program.results) out_types.push_back(types.instructions[at(i)]);
    if (!supports_(text, in_types, out_types)) return false;

    const Node& last = graph_.node(members.back());
    std::vector<ValueId> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      operands.push_back(viewed(copy_.mapped(inputs[i]), input_shapes[i], last));
    }
    const NodeId id = copy_.graph().add_node(Op::kFused, std::move(operands), FusedAttrs{text},
                                             std::move(out_types), last.section, last.source);
    for (const auto& [v, i] : leaving) {
      const ValueId made = copy_.graph().node(id).outputs[number_of_result.at(i)];
      copy_.map(v, viewed(made, graph_.type(v).shape, last));
    }
    return true;
  }

  Graph& graph_;
  const FusedSupport& supports_;
  std::map<std::string, bool> has_loop_;

  std::vector<Group> groups_;
  std::vector<int32_t> parent_;         // of groups: a forest of merged ones
  std::vector<int32_t> group_of_node_;  // or kNone
  std::vector<int32_t> level_;          // of nodes without a group
  std::vector<int32_t> barriers_;       // by NodeId: nodes up to there that cannot be fused
  std::vector<NodeId> before_;          // nodes that the current one must come after
  std::vector<ValueId> state_of_;       // of a value: the input that it is a view of
  std::vector<std::vector<NodeId>> old_readers_;
  std::map<int32_t, std::vector<NodeId>> updates_;  // what must come before a state update
  std::vector<int32_t> instructions_;
  std::vector<std::vector<NodeId>> members_;

  GraphCopy copy_;
  std::vector<bool> done_, outside_;
  bool changed_ = false;
};

class Fuse final : public Pass {
 public:
  explicit Fuse(FusedSupport supports) : supports_(std::move(supports)) {}
  std::string_view name() const override { return "fuse"; }
  bool run(Graph& graph) override { return Fuser(graph, supports_).run(); }

 private:
  FusedSupport supports_;
};

}  // namespace

std::unique_ptr<Pass> make_fuse_pass(FusedSupport supports) {
  return std::make_unique<Fuse>(std::move(supports));
}

}  // namespace trainrt
