// Rows of an embedding times a matrix: the product of the whole table is made once, and its rows
// are gathered.
#include "graph/passes/raise.h"

namespace trainrt {
namespace {

// A row of the product must be worth more than its copy, and be used so often on average.
constexpr int64_t kLeastInner = 32, kLeastUses = 2;

bool pays(const Shape& table, const Shape& ids) {
  return table[0] * kLeastUses <= element_count(ids);
}

/// x's rows as rows of an embedding: Gather along axis 0, and nodes that move rows as wholes.
struct Rows {
  const Node* gather = nullptr;
  std::vector<const Node*> moves;  // from x back to the Gather
};

Rows rows_of(const RaiseContext& c, ValueId x) {
  Rows result;
  for (const Node* node = &c.producer(x);; node = &c.producer(node->inputs[0])) {
    if (node->op == Op::kGather) {
      const bool rows =
          c.shape(node->inputs[0]).size() == 2 && std::get<AxisAttrs>(node->attrs).axis == 0;
      if (rows) result.gather = node;
      return result;
    }
    const Shape& to = c.shape(node->outputs[0]);
    if (node->op == Op::kReshape) {
      const Shape& from = c.shape(node->inputs[0]);
      if (to.empty() || from.empty() || to.back() != from.back()) return result;
    } else if (node->op == Op::kTranspose) {
      if (std::get<PermAttrs>(node->attrs).perm.back() != std::ssize(to) - 1) return result;
    } else {
      return result;
    }
    result.moves.push_back(node);
  }
}

Shape without_last(const Shape& s) { return {s.begin(), s.end() - 1}; }

/// E[ids] W = (E W)[ids]
Replacement multiply_table(Builder& b, const Node& node, std::span<const Var> in,
                           const RaiseContext& c) {
  if (node.op != Op::kMatMul) return {};
  const auto& attrs = std::get<MatMulAttrs>(node.attrs);
  const Shape &x = c.shape(node.inputs[0]), &w = c.shape(node.inputs[1]);
  if (in.size() != 2 || attrs.trans_a || attrs.relu || w.size() != 2 || x.size() < 2) return {};
  if (x.back() < kLeastInner) return {};
  const Rows rows = rows_of(c, node.inputs[0]);
  if (rows.gather == nullptr) return {};
  const Var table = c.var(rows.gather->inputs[0]);
  Var ids = c.var(rows.gather->inputs[1]);
  if (!pays(table.shape(), ids.shape())) return {};
  for (auto move = rows.moves.rbegin(); move != rows.moves.rend(); ++move) {
    if ((*move)->op == Op::kReshape) {
      ids = b.add(Op::kReshape, {ids}, ShapeAttrs{without_last(c.shape((*move)->outputs[0]))});
    } else {
      std::vector<int64_t> perm = std::get<PermAttrs>((*move)->attrs).perm;
      perm.pop_back();
      ids = b.add(Op::kTranspose, {ids}, PermAttrs{std::move(perm)});
    }
  }
  const Var product = b.add(Op::kMatMul, {table, in[1]}, attrs);
  return {{b.add(Op::kGather, {product, ids}, AxisAttrs{0})}};
}

/// T[ids] + bias = (T + bias)[ids] for such a product T.
Replacement add_to_table(Builder& b, const Node& node, std::span<const Var> in,
                         const RaiseContext& c) {
  if (node.op != Op::kAdd) return {};
  for (size_t i = 0; i < 2; ++i) {
    const Node* gather = c.inner(node.inputs[i], Op::kGather);
    if (gather == nullptr || std::get<AxisAttrs>(gather->attrs).axis != 0) continue;
    const Node* product = c.inner(gather->inputs[0], Op::kMatMul);
    const Shape& bias = c.shape(node.inputs[1 - i]);
    if (product == nullptr || bias.size() != 1) continue;
    const Shape& table = c.shape(gather->inputs[0]);
    if (table.size() != 2 || bias != Shape{table[1]}) continue;
    if (!pays(table, c.shape(gather->inputs[1]))) continue;
    const Var sum = b.add(Op::kAdd, {c.var(gather->inputs[0]), in[1 - i]});
    return {{b.add(Op::kGather, {sum, c.var(gather->inputs[1])}, AxisAttrs{0})}};
  }
  return {};
}

constexpr RaiseRule kRules[] = {{"multiply_table", multiply_table}, {"add_to_table", add_to_table}};

}  // namespace

std::span<const RaiseRule> raise_table_rules() { return kRules; }

}  // namespace trainrt
