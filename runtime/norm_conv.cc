#include "runtime/norm_conv.h"

#include <algorithm>
#include <optional>

#include "graph/graph_copy.h"

namespace trainrt {
namespace {

size_t at(int32_t index) { return static_cast<size_t>(index); }

/// Whether a row made for the purpose takes the node.
bool takes(const RowTable& rows, const NodeView& node) {
  const KernelRow* row = rows.find(node).row;
  return row != nullptr && row->layouts;
}

/// A Conv of `y` without bias and ReLU.
bool is_plain_conv(const Node& node, ValueId y) {
  return node.op == Op::kConv && node.inputs.size() == 2 && node.inputs[0] == y &&
         node.inputs[1] != y && !std::get<ConvAttrs>(node.attrs).relu;
}

/// The nodes that become two; the gradients are there all or not at all.
struct Match {
  NodeId norm, conv, data_grad, weight_grad, norm_grad;
};

class NormConvPass {
 public:
  NormConvPass(const Graph& graph, const RowTable& rows)
      : graph_(graph), rows_(rows), readers_(readers(graph)), leaves_(at(graph.value_count())) {
    for (const Output& o : graph.outputs()) leaves_[at(o.value.index)] = true;
  }

  bool find() {
    role_.resize(at(graph_.node_count()));
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      if (graph_.node(NodeId{i}).op != Op::kBatchNorm) continue;
      const std::optional<Match> match = match_at(NodeId{i});
      if (!match || !runs(*match)) continue;
      const int32_t index = static_cast<int32_t>(matches_.size());
      matches_.push_back(*match);
      for (NodeId id : {match->norm, match->conv}) role_[at(id.index)] = {index, false};
      if (!match->weight_grad) continue;
      for (NodeId id : {match->data_grad, match->weight_grad, match->norm_grad}) {
        role_[at(id.index)] = {index, true};
      }
    }
    return !matches_.empty();
  }

  Graph rebuild() {
    GraphCopy copy(graph_);
    std::vector<bool> placed(2 * matches_.size());
    for (int32_t i = 0; i < graph_.node_count(); ++i) {
      const Node& node = graph_.node(NodeId{i});
      const Role role = role_[at(i)];
      if (role.match < 0) {
        if (node.outputs.empty() || !copy.mapped(node.outputs[0])) copy.keep(node);
        continue;
      }
      // A fused node stands where the first of its parts stood: operands are there by then.
      const size_t slot = 2 * at(role.match) + (role.gradient ? 1 : 0);
      if (placed[slot]) continue;
      placed[slot] = true;
      const Match& m = matches_[at(role.match)];
      Fused fused = role.gradient ? gradient(m) : forward(m);
      for (ValueId v : fused.inputs) {
        if (!copy.mapped(v)) copy.keep(graph_.producer(v));
      }
      copy.place({fused.op, std::move(fused.attrs), copy.mapped(fused.inputs),
                  std::move(fused.outputs), node.section, node.source});
    }
    return copy.finish();
  }

 private:
  struct Role {
    int32_t match = -1;
    bool gradient = false;
  };
  struct Fused {
    Op op;
    Attrs attrs;
    std::vector<ValueId> inputs, outputs;
  };

  const Node& node(NodeId id) const { return graph_.node(id); }

  /// The readers of a value that does not leave the graph; none otherwise.
  std::vector<NodeId> only_readers(ValueId v) const {
    return leaves_[at(v.index)] ? std::vector<NodeId>{} : readers_[at(v.index)];
  }

  std::optional<Match> match_at(NodeId id) const {
    const Node& norm = node(id);
    if (norm.inputs.size() != 3 || norm.section != Section::kForward) return std::nullopt;
    const ValueId y = norm.outputs[0];
    Match m;
    m.norm = id;
    for (NodeId reader : only_readers(y)) {
      const Node& n = node(reader);
      if (is_plain_conv(n, y) && !m.conv) {
        m.conv = reader;
      } else if (n.op == Op::kConvWeightGrad && n.inputs[0] == y && n.inputs[1] != y &&
                 !m.weight_grad) {
        m.weight_grad = reader;
      } else {
        return std::nullopt;
      }
    }
    if (!m.conv) return std::nullopt;
    // The weights must be there where the normalisation stood; sources can be moved.
    const NodeId weights = graph_.value(node(m.conv).inputs[1]).producer;
    if (weights.index > id.index && !node(weights).inputs.empty()) return std::nullopt;
    if (m.weight_grad && !find_gradients(m)) return std::nullopt;
    return m;
  }

  /// Completes a match that has its weight gradient.
  bool find_gradients(Match& m) const {
    const Node &norm = node(m.norm), &conv = node(m.conv);
    const ValueId dz = node(m.weight_grad).inputs[1];
    for (NodeId reader : readers_[at(dz.index)]) {
      const Node& n = node(reader);
      if (n.op != Op::kConvDataGrad || n.inputs != std::vector{dz, conv.inputs[1]}) continue;
      if (m.data_grad) return false;
      m.data_grad = reader;
    }
    if (!m.data_grad) return false;
    const ValueId dy = node(m.data_grad).outputs[0];
    const std::vector<NodeId> after = only_readers(dy);
    if (after.size() != 1) return false;
    m.norm_grad = after[0];
    const Node& grad = node(m.norm_grad);
    return grad.op == Op::kBatchNormGrad && grad.outputs.size() == 3 && grad.inputs[0] == dy &&
           grad.inputs[1] == norm.inputs[0] && grad.inputs[2] == norm.inputs[1] &&
           grad.inputs[3] == norm.outputs[1] && grad.inputs[4] == norm.outputs[2] &&
           same_convolution(conv, node(m.data_grad)) && same_convolution(conv, node(m.weight_grad));
  }

  static bool same_convolution(const Node& conv, const Node& gradient) {
    ConvAttrs attrs = std::get<ConvAttrs>(gradient.attrs);
    attrs.shape.clear();
    return equal(attrs, conv.attrs);
  }

  Attrs attrs_of(const Match& m) const {
    return NormConvAttrs(std::get<NormAttrs>(node(m.norm).attrs),
                         std::get<ConvAttrs>(node(m.conv).attrs));
  }

  Fused forward(const Match& m) const {
    const Node &norm = node(m.norm), &conv = node(m.conv);
    return {Op::kNormConv,
            attrs_of(m),
            {norm.inputs[0], norm.inputs[1], norm.inputs[2], conv.inputs[1]},
            {conv.outputs[0], norm.outputs[1], norm.outputs[2]}};
  }

  Fused gradient(const Match& m) const {
    const Node &norm = node(m.norm), &grad = node(m.norm_grad);
    return {Op::kNormConvGrad,
            attrs_of(m),
            {node(m.weight_grad).inputs[1], norm.inputs[0], norm.inputs[1], norm.inputs[2],
             norm.outputs[1], norm.outputs[2], node(m.conv).inputs[1]},
            {grad.outputs[0], grad.outputs[1], grad.outputs[2], node(m.weight_grad).outputs[0]}};
  }

  bool runs(const Match& m) const {
    return runs(forward(m)) && (!m.weight_grad || runs(gradient(m)));
  }
  bool runs(const Fused& fused) const {
    std::vector<TensorType> in, out;
    for (ValueId v : fused.inputs) in.push_back(graph_.type(v));
    for (ValueId v : fused.outputs) out.push_back(graph_.type(v));
    return takes(rows_, {fused.op, fused.attrs, in, out});
  }

  const Graph& graph_;
  const RowTable& rows_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> leaves_;  // by value: whether it is an output of the graph
  std::vector<Match> matches_;
  std::vector<Role> role_;  // by node
};

}  // namespace

void fuse_norm_conv(Graph& graph, const RowTable& rows) {
  NormConvPass pass(graph, rows);
  if (pass.find()) graph = pass.rebuild();
}

bool joins_convolution(const Graph& graph, const Node& norm, const RowTable& rows) {
  const ValueId y = norm.outputs[0];
  if (norm.inputs.size() != 3 || graph.type(y).rank() != 4) return false;
  for (const Output& o : graph.outputs()) {
    if (o.value == y) return false;
  }
  const Node* conv = nullptr;
  for (const Node& node : graph.nodes()) {
    if (node.section != Section::kForward) continue;
    if (std::find(node.inputs.begin(), node.inputs.end(), y) == node.inputs.end()) continue;
    if (conv != nullptr || !is_plain_conv(node, y)) return false;
    conv = &node;
  }
  if (conv == nullptr) return false;
  const Attrs attrs =
      NormConvAttrs(std::get<NormAttrs>(norm.attrs), std::get<ConvAttrs>(conv->attrs));
  TensorType x = graph.type(norm.inputs[0]), z = graph.type(conv->outputs[0]);
  x.layout = z.layout = Layout::kNChw16c;
  const TensorType &scale = graph.type(norm.inputs[1]), &bias = graph.type(norm.inputs[2]),
                   &mean = graph.type(norm.outputs[1]), &variance = graph.type(norm.outputs[2]),
                   &w = graph.type(conv->inputs[1]);
  const TensorType in[] = {x, scale, bias, w}, out[] = {z, mean, variance};
  const TensorType grad_in[] = {z, x, scale, bias, mean, variance, w};
  const TensorType grad_out[] = {x, scale, bias, w};
  return takes(rows, {Op::kNormConv, attrs, in, out}) &&
         takes(rows, {Op::kNormConvGrad, attrs, grad_in, grad_out});
}

}  // namespace trainrt
