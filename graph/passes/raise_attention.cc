// Attention: softmax(a q (b k)^T + mask) v. Transposes, reshapes and splits before and after it
// move nothing when the kernel reads the memory behind them in its own order, so operands are
// followed back through them.
#include <algorithm>

#include "graph/passes/raise.h"

namespace trainrt {
namespace {

struct Axis {
  int64_t size, stride;
  bool operator==(const Axis&) const = default;
};
using Axes = std::vector<Axis>;

int64_t product(const Shape& shape, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= shape[i];
  return n;
}

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) strides[i] = product(shape, i + 1, shape.size());
  return strides;
}

/// Without axes of size 1, neighbours joined where they are one run.
Axes joined(const Axes& axes) {
  Axes result;
  for (const Axis& a : axes) {
    if (a.size == 1) continue;
    if (!result.empty() && result.back().stride == a.size * a.stride) {
      result.back() = {result.back().size * a.size, a.stride};
    } else {
      result.push_back(a);
    }
  }
  return result;
}

/// factor times elements of `base`: where each dim of a value walks in the base's memory.
struct View {
  ValueId base;
  int64_t offset = 0;
  std::vector<Axes> dims;
  double factor = 1;
  bool moved = false;  // a transpose lies between
};

View view_of(const RaiseContext& c, ValueId v) {
  View view{v, 0, {}, 1, false};
  const Shape &shape = c.shape(v), strides = dense_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i) view.dims.push_back({{shape[i], strides[i]}});
  return view;
}

/// Rewrites a view of a tensor of `shape` whose dim i walks in another memory in steps of
/// strides[i]; false where the dims of the view are no whole parts of the tensor's.
bool remap(View& view, const Shape& shape, const Shape& strides, int64_t offset) {
  const Shape dense = dense_strides(shape);
  std::vector<int64_t> last(shape.size());  // largest index reached in each dim
  int64_t rest = view.offset;
  view.offset = offset;
  for (size_t d = 0; d < shape.size(); ++d) {
    last[d] = dense[d] == 0 ? 0 : rest / dense[d];
    rest -= last[d] * dense[d];
    view.offset += last[d] * strides[d];
  }
  for (Axes& axes : view.dims) {
    Axes result;
    for (auto a = axes.rbegin(); a != axes.rend(); ++a) {
      int64_t size = a->size, stride = a->stride;
      if (size == 1 || stride == 0) result.push_back(*a);
      while (size > 1 && stride > 0) {
        size_t d = 0;
        while (d < shape.size() && (shape[d] == 1 || dense[d] > stride)) ++d;
        if (d == shape.size() || stride % dense[d] != 0) return false;
        const int64_t step = stride / dense[d];
        if (shape[d] % step != 0) return false;
        const int64_t count = std::min(size, shape[d] / step);
        if (count < 2 || size % count != 0) return false;
        result.push_back({count, step * strides[d]});
        last[d] += (count - 1) * step;
        size /= count;
        stride *= count;
      }
    }
    std::reverse(result.begin(), result.end());
    axes = std::move(result);
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    if (last[d] >= shape[d]) return false;
  }
  return true;
}

/// Looks through the producer of the view's base; false where that computes something.
bool step(const RaiseContext& c, View& view, bool scales) {
  const Node& node = c.producer(view.base);
  const ValueId base = view.base;
  const Shape& shape = c.shape(base);
  if (node.inputs.empty() || c.type(base).size() == 0) return false;
  view.base = node.inputs[0];
  const Shape& from = c.shape(view.base);
  const Shape from_strides = dense_strides(from);
  Shape strides = from_strides;
  int64_t offset = 0;
  switch (node.op) {
    case Op::kIdentity:
    case Op::kReshape:
      return true;
    case Op::kTranspose: {
      const auto& perm = std::get<PermAttrs>(node.attrs).perm;
      for (size_t i = 0; i < perm.size(); ++i) {
        strides[i] = from_strides[static_cast<size_t>(perm[i])];
      }
      view.moved = true;
      break;
    }
    case Op::kSlice: {
      const auto& s = std::get<SliceAttrs>(node.attrs);
      for (size_t i = 0; i < shape.size(); ++i) {
        if (s.steps[i] < 1) return false;
        offset += s.starts[i] * from_strides[i];
        strides[i] *= s.steps[i];
      }
      break;
    }
    case Op::kSplit: {
      const auto& s = std::get<SplitAttrs>(node.attrs);
      for (size_t i = 0; node.outputs[i] != base; ++i) {
        offset += s.sizes[i] * from_strides[static_cast<size_t>(s.axis)];
      }
      break;
    }
    case Op::kExpand: {
      strides.assign(shape.size(), 0);
      for (size_t i = 0; i < from.size(); ++i) {
        const size_t d = shape.size() - from.size() + i;
        if (from[i] == shape[d]) strides[d] = from_strides[i];
      }
      break;
    }
    case Op::kMul:
    case Op::kDiv: {
      if (!scales) return false;
      for (size_t i : {size_t{1}, size_t{0}}) {
        const auto value = c.uniform(node.inputs[i]);
        if (!value || (i == 0 && node.op == Op::kDiv)) continue;
        view.base = node.inputs[1 - i];
        view.factor = node.op == Op::kMul ? view.factor * *value : view.factor / *value;
        return c.type(view.base) == c.type(base);
      }
      return false;
    }
    default:
      return false;
  }
  return remap(view, shape, strides, offset);
}

/// The value's views, from itself back to the memory of something computed.
std::vector<View> views(const RaiseContext& c, View view, bool scales) {
  std::vector<View> result = {view};
  while (step(c, view, scales)) result.push_back(view);
  return result;
}

// A transpose or reshape at whose end the elements lie as they did before.
Replacement match_view(Builder&, const Node& node, std::span<const Var>, const RaiseContext& c) {
  if (node.op != Op::kTranspose && node.op != Op::kReshape) return {};
  const TensorType& type = c.type(node.outputs[0]);
  std::optional<ValueId> found;
  for (const View& view : views(c, view_of(c, node.outputs[0]), false)) {
    Axes all;
    for (const Axes& axes : view.dims) all.insert(all.end(), axes.begin(), axes.end());
    all = joined(all);
    const bool dense = all.empty() || (all.size() == 1 && all[0].stride == 1);
    if (view.moved && dense && view.offset == 0 && c.type(view.base).size() == type.size()) {
      found = view.base;
    }
  }
  if (!found) return {};
  return {{reshape(c.var(*found), type.shape)}};
}

/// Batch and heads that the leading dims of the operands are taken for.
struct Heads {
  int64_t batch, heads;
};

/// Tokens before heads or behind them, or all of q, k and v in one tensor; with the batch before
/// the tokens or behind them.
struct Form {
  bool token_major, packed, sequence_first;
};
constexpr Form kForms[] = {
    {true, true, false}, {true, true, true}, {true, false, false}, {true, false, true}, {}};

/// The parts of a view as attention sees them.
struct Rows {
  Axes lead, token, element;
  int64_t tokens, size, repeat = 1;  // consecutive heads that are one
};

Rows rows_of(const View& view, bool turned) {
  const size_t rank = view.dims.size();
  const Axes& token = view.dims[rank - (turned ? 1 : 2)];
  const Axes& element = view.dims[rank - (turned ? 2 : 1)];
  Axes lead;
  for (size_t i = 0; i + 2 < rank; ++i) {
    lead.insert(lead.end(), view.dims[i].begin(), view.dims[i].end());
  }
  Rows rows{joined(lead), joined(token), joined(element), 1, 1};
  for (const Axis& a : token) rows.tokens *= a.size;
  for (const Axis& a : element) rows.size *= a.size;
  if (!rows.lead.empty() && rows.lead.back().stride == 0) {
    rows.repeat = rows.lead.back().size;
    rows.lead.pop_back();
  }
  return rows;
}

/// Whether the view is of that form; a packed one holds part number `part`.
bool has_form(const RaiseContext& c, const View& view, bool turned, Form form, Heads h,
              int64_t part) {
  const Rows r = rows_of(view, turned);
  if (h.heads % r.repeat != 0) return false;
  const int64_t heads = h.heads / r.repeat, parts = form.packed ? 3 : 1;
  if (form.packed && r.repeat != 1) return false;
  const int64_t row = heads * r.size * parts;  // of all heads of a token
  Axis batch = {h.batch, r.tokens * row}, head = {heads, r.size}, token = {r.tokens, row};
  if (!form.token_major) {
    head.stride = r.tokens * r.size;
    token.stride = r.size;
  } else if (form.sequence_first) {
    batch.stride = row;
    token.stride = h.batch * row;
  }
  return view.offset == (parts == 3 ? part * heads * r.size : 0) &&
         c.type(view.base).size() == h.batch * r.tokens * row && r.lead == joined({batch, head}) &&
         r.token == joined({token}) && r.element == joined({{r.size, 1}});
}

/// The deepest view of that form.
const View* find_form(const RaiseContext& c, const std::vector<View>& list, bool turned, Form form,
                      Heads h, int64_t part = 0) {
  for (auto v = list.rbegin(); v != list.rend(); ++v) {
    if (has_form(c, *v, turned, form, h, part)) return &*v;
  }
  return nullptr;
}

/// Whether gradients could flow into v: it depends on floats that are fed.
bool depends_on_floats(const RaiseContext& c, ValueId v) {
  if (!is_float(c.type(v).dtype)) return false;
  const Node& node = c.producer(v);
  if (node.op == Op::kInput) return true;
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId in) { return depends_on_floats(c, in); });
}

/// Whether the mask hides the keys behind i + keys - queries from query i, and nothing else.
bool is_causal(const RaiseContext& c, ValueId mask, int64_t queries, int64_t keys) {
  const Node& node = c.producer(mask);
  if (node.op != Op::kConstant || c.type(mask).size() != queries * keys) return false;
  const Shape& shape = c.shape(mask);
  if (shape.size() < 2 || shape.back() != keys || queries < 2 || keys < queries) return false;
  const Tensor values = std::get<ConstantAttrs>(node.attrs).value.to(DType::kFloat64);
  const std::span<const double> data = values.data<double>();
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      const double value = data[static_cast<size_t>(i * keys + j)];
      // So low that any score is lost in it.
      if (j > i + keys - queries ? !(value <= -1e30) : value != 0) return false;
    }
  }
  return true;
}

/// What lies between the product of q and k and its softmax.
struct Scores {
  const Node* product = nullptr;
  double scale = 1;
  ValueId mask;
};

std::optional<Scores> scores_of(const RaiseContext& c, ValueId v) {
  Scores result;
  const auto is_product = [&](const Node* n) { return n != nullptr && n->inputs.size() == 2; };
  const Shape& shape = c.shape(v);
  while (true) {
    if (const Node* n = c.inner(v, Op::kMatMul); is_product(n)) {
      if (std::get<MatMulAttrs>(n->attrs).relu || c.shape(v) != shape) return {};
      result.product = n;
      return result;
    }
    if (const Node* n = c.inner(v, Op::kAdd); n != nullptr) {
      if (result.mask || result.scale != 1) return {};
      // The side that leads to a product is the scores.
      bool found = false;
      for (size_t i : {size_t{0}, size_t{1}}) {
        if (c.shape(n->inputs[i]) != shape || c.uses(n->inputs[i]) != 1) continue;
        const Op op = c.producer(n->inputs[i]).op;
        if (op != Op::kMatMul && op != Op::kMul && op != Op::kDiv) continue;
        v = n->inputs[i];
        result.mask = n->inputs[1 - i];
        found = true;
        break;
      }
      if (!found) return {};
      continue;
    }
    const Node *mul = c.inner(v, Op::kMul), *div = c.inner(v, Op::kDiv);
    if (div != nullptr && c.uniform(div->inputs[1])) {
      result.scale /= *c.uniform(div->inputs[1]);
      v = div->inputs[0];
    } else if (mul != nullptr && c.uniform(mul->inputs[1])) {
      result.scale *= *c.uniform(mul->inputs[1]);
      v = mul->inputs[0];
    } else if (mul != nullptr && c.uniform(mul->inputs[0])) {
      result.scale *= *c.uniform(mul->inputs[0]);
      v = mul->inputs[1];
    } else {
      return {};
    }
  }
}

struct Choice {
  Form form;
  Heads heads;
  const View *q, *k, *v;
};

/// The mask over [batch, heads, queries, keys] when the leading dims are taken so; absent when that
/// cannot be.
std::optional<Shape> mask_shape(const Shape& mask, size_t lead, size_t batch_dims) {
  if (mask.size() > lead + 2) return std::nullopt;
  if (mask.size() <= 2) return mask;
  const size_t missing = lead + 2 - mask.size();
  if (product(mask, 0, mask.size() - 2) == 1) return Shape{mask.end() - 2, mask.end()};
  if (lead == 2 && batch_dims == 1) return mask;
  if (lead == 1 && batch_dims == 0 && missing == 0) return mask;
  return std::nullopt;
}

Replacement match_attention(Builder& b, const Node& node, std::span<const Var>,
                            const RaiseContext& c) {
  if (node.op != Op::kMatMul || node.inputs.size() != 2) return {};
  const auto& outer = std::get<MatMulAttrs>(node.attrs);
  const Node* softmax = c.inner(node.inputs[0], Op::kSoftmax);
  if (softmax == nullptr || outer.trans_a || outer.relu) return {};
  const Shape& weights = c.shape(node.inputs[0]);
  const size_t lead = weights.size() - 2;
  if (std::get<AxisAttrs>(softmax->attrs).axis != static_cast<int64_t>(weights.size()) - 1)
    return {};
  const auto scores = scores_of(c, softmax->inputs[0]);
  if (!scores) return {};
  const ValueId q = scores->product->inputs[0], k = scores->product->inputs[1], v = node.inputs[1];
  for (ValueId operand : {q, k, v}) {
    const Shape& shape = c.shape(operand);
    if (shape.size() != weights.size() || c.type(operand).size() == 0 ||
        !std::equal(shape.begin(), shape.end() - 2, weights.begin())) {
      return {};
    }
  }
  const int64_t queries = weights[lead], keys = weights[lead + 1];
  const bool causal = scores->mask && is_causal(c, scores->mask, queries, keys);
  const bool masked = scores->mask && !causal;
  if (masked && depends_on_floats(c, scores->mask)) return {};

  const auto& inner = std::get<MatMulAttrs>(scores->product->attrs);
  const bool turned[] = {inner.trans_a, !inner.trans_b, outer.trans_b};
  const std::vector<View> lists[] = {views(c, view_of(c, q), true), views(c, view_of(c, k), true),
                                     views(c, view_of(c, v), false)};
  std::optional<Choice> choice;
  std::optional<Shape> mask;
  for (const Form& form : kForms) {
    for (size_t step = 0; step <= lead + 1 && !choice; ++step) {
      // Two leading dims are batch and heads, if they can be; in the end, one dim may be both.
      const bool hidden = step == lead + 1;
      const size_t batch_dims = hidden ? lead : lead == 2 && step < 2 ? 1 - step : step;
      if (masked) mask = mask_shape(c.shape(scores->mask), lead, batch_dims);
      if (masked && !mask) continue;
      Heads h = {product(weights, 0, batch_dims), product(weights, batch_dims, lead)};
      if (hidden) {
        const Axes axes = rows_of(lists[0].back(), turned[0]).lead;
        if (axes.size() != 2 || (masked && mask->size() > 2)) continue;
        h = {axes[0].size, axes[1].size};
      }
      const View* found[3];
      for (size_t i = 0; i < 3; ++i) {
        found[i] = find_form(c, lists[i], turned[i], form, h, static_cast<int64_t>(i));
      }
      if (found[0] == nullptr || found[1] == nullptr || found[2] == nullptr) continue;
      if (form.packed && (found[0]->base != found[1]->base || found[0]->base != found[2]->base)) {
        continue;
      }
      if (rows_of(*found[1], turned[1]).repeat != rows_of(*found[2], turned[2]).repeat ||
          rows_of(*found[0], turned[0]).repeat != 1) {
        continue;
      }
      choice = Choice{form, h, found[0], found[1], found[2]};
    }
  }
  if (!choice) return {};

  const auto [tokens_first, packed, sequence_first] = choice->form;
  const AttentionAttrs attrs{scores->scale * choice->q->factor * choice->k->factor, causal,
                             tokens_first, packed, sequence_first};
  const auto operand = [&](const View& view, bool is_turned) {
    const Rows r = rows_of(view, is_turned);
    const int64_t batch = choice->heads.batch, heads = choice->heads.heads / r.repeat;
    const Var base = c.var(view.base);
    if (!attrs.token_major) return reshape(base, {batch, heads, r.tokens, r.size});
    Shape shape = {batch, r.tokens, heads, r.size};
    if (attrs.sequence_first) std::swap(shape[0], shape[1]);
    if (attrs.packed) shape.insert(shape.begin() + 2, 3);
    return reshape(base, shape);
  };
  std::vector<Var> operands = {operand(*choice->q, turned[0])};
  if (!packed) {
    operands.push_back(operand(*choice->k, turned[1]));
    operands.push_back(operand(*choice->v, turned[2]));
  }
  if (masked) operands.push_back(reshape(c.var(scores->mask), *mask));
  Var y = b.add_all(Op::kAttention, operands, attrs)[0];
  if (sequence_first)
    y = transpose(y, {1, 2, 0, 3});
  else if (tokens_first)
    y = transpose(y, {0, 2, 1, 3});
  return {{reshape(y, c.shape(node.outputs[0]))}};
}

constexpr RaiseRule kRules[] = {{"attention", match_attention}, {"view", match_view}};

}  // namespace

std::span<const RaiseRule> raise_attention_rules() { return kRules; }

}  // namespace trainrt
