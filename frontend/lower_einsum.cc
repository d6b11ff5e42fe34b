// Einsum, by transposes, reshapes and matrix products, two operands at a time.
#include <algorithm>
#include <map>

#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

// Labels are letters; dims of an ellipsis, counted from the right, are -1, -2, …
using Labels = std::vector<int>;

bool contains(const Labels& list, int label) {
  return std::find(list.begin(), list.end(), label) != list.end();
}

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool has_output = false;
};

Equation parse_equation(LowerContext& c, std::string text) {
  std::erase(text, ' ');
  Equation e;
  if (const size_t arrow = text.find("->"); arrow != std::string::npos) {
    e.output = text.substr(arrow + 2);
    e.has_output = true;
    text.resize(arrow);
  }
  size_t begin = 0;
  for (size_t comma; (comma = text.find(',', begin)) != std::string::npos; begin = comma + 1) {
    e.inputs.push_back(text.substr(begin, comma - begin));
  }
  e.inputs.push_back(text.substr(begin));
  if (e.inputs.size() != c.input_count()) {
    c.invalid("the equation names " + std::to_string(e.inputs.size()) + " operands, the node has " +
              std::to_string(c.input_count()));
  }
  return e;
}

// `ellipsis`: how many dims "..." stands for.
Labels parse_term(LowerContext& c, const std::string& term, int64_t ellipsis) {
  Labels labels;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    const char letter = term[i];
    if (term.compare(i, 3, "...") == 0 && !seen) {
      for (int64_t d = ellipsis; d > 0; --d) labels.push_back(static_cast<int>(-d));
      seen = true;
      i += 2;
    } else if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
      labels.push_back(letter);
    } else {
      c.invalid("the equation's term '" + term + "' is malformed");
    }
  }
  return labels;
}

struct Operand {
  Var v;
  Labels labels;
};

// Axes i < j of one label become one: the diagonal has stride size + 1 in the merged axis.
void take_diagonals(LowerContext& c, Operand& x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    for (size_t j = x.labels.size() - 1; j > i; --j) {
      if (x.labels[j] != x.labels[i]) continue;
      const int64_t size = x.v.dim(static_cast<int64_t>(i)), rank = x.v.rank();
      if (x.v.dim(static_cast<int64_t>(j)) != size) c.invalid("a repeated label has two sizes");
      std::vector<int64_t> perm = identity_perm(rank);
      perm.erase(perm.begin() + static_cast<int64_t>(j));
      perm.insert(perm.begin() + static_cast<int64_t>(i), static_cast<int64_t>(j));
      Var v = transpose(x.v, perm);
      Shape merged = v.shape();
      merged.erase(merged.begin() + static_cast<int64_t>(i));
      merged[i] = element_count(Shape{size, size});
      x.v = slice(reshape(v, merged), static_cast<int64_t>(i), 0, size, size + 1);
      x.labels.erase(x.labels.begin() + static_cast<int64_t>(j));
    }
  }
}

// Drops axes of size 1 whose label is larger elsewhere: what is left broadcasts.
void drop_ones(Operand& x, const std::map<int, int64_t>& sizes) {
  Shape shape;
  Labels labels;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const int64_t dim = x.v.dim(static_cast<int64_t>(i));
    if (dim == 1 && sizes.at(x.labels[i]) != 1) continue;
    shape.push_back(dim);
    labels.push_back(x.labels[i]);
  }
  x.v = reshape(x.v, shape);
  x.labels = labels;
}

void sum_out(Operand& x, const Labels& kept) {
  std::vector<int64_t> axes;
  Labels labels;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (contains(kept, x.labels[i])) {
      labels.push_back(x.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  x.v = reduce_sum(x.v, axes);
  x.labels = labels;
}

// Axes in the order of `order`, which names the operand's labels.
Var arranged(const Operand& x, const Labels& order) {
  std::vector<int64_t> perm;
  for (int label : order) {
    perm.push_back(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin());
  }
  return transpose(x.v, perm);
}

Labels joined_labels(std::initializer_list<const Labels*> lists) {
  Labels all;
  for (const Labels* list : lists) all.insert(all.end(), list->begin(), list->end());
  return all;
}

// Labels of both operands are batch axes when they are needed later, else contracted.
Operand contract(const Operand& a, const Operand& b, const Labels& kept) {
  Labels batch, inner, left, right;
  for (int label : a.labels) {
    if (!contains(b.labels, label)) {
      left.push_back(label);
    } else {
      (contains(kept, label) ? batch : inner).push_back(label);
    }
  }
  for (int label : b.labels) {
    if (!contains(a.labels, label)) right.push_back(label);
  }
  Var x = arranged(a, joined_labels({&batch, &left, &inner}));
  Var y = arranged(b, joined_labels({&batch, &inner, &right}));
  const int64_t nb = static_cast<int64_t>(batch.size()), nl = static_cast<int64_t>(left.size()),
                ni = static_cast<int64_t>(inner.size());
  Shape shape(x.shape().begin(), x.shape().begin() + nb + nl);
  shape.insert(shape.end(), y.shape().begin() + nb + ni, y.shape().end());
  const int64_t n = product(x.shape(), 0, nb), m = product(x.shape(), nb, nb + nl),
                k = product(x.shape(), nb + nl, x.rank()),
                p = product(y.shape(), nb + ni, y.rank());
  x = reshape(x, nb == 0 ? Shape{m, k} : Shape{n, m, k});
  y = reshape(y, nb == 0 ? Shape{k, p} : Shape{n, k, p});
  const Var z = inner.empty() ? x * y : matmul_any(x, y);
  return {reshape(z, shape), joined_labels({&batch, &left, &right})};
}

// Without "->": the ellipsis, then the labels that occur once, in alphabetical order.
Labels implicit_output(const std::vector<Operand>& operands, int64_t ellipsis) {
  std::map<int, int> count;
  for (const Operand& x : operands) {
    for (int label : x.labels) ++count[label];
  }
  Labels output;
  for (int64_t d = ellipsis; d > 0; --d) output.push_back(static_cast<int>(-d));
  for (const auto& [label, times] : count) {
    if (label > 0 && times == 1) output.push_back(label);
  }
  return output;
}

void lower_einsum(LowerContext& c) {
  const Equation e = parse_equation(c, c.attr_string("equation"));
  std::vector<Operand> operands;
  int64_t ellipsis = 0;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    const std::string& term = e.inputs[i];
    const bool dots = term.find("...") != std::string::npos;
    const int64_t letters = static_cast<int64_t>(term.size()) - (dots ? 3 : 0);
    const int64_t rest = c.need(i).rank() - letters;
    if (rest < 0 || (rest > 0 && !dots)) {
      c.invalid("term '" + term + "' does not fit an operand of shape " +
                to_string(c.in(i).shape()));
    }
    operands.push_back({c.in(i), parse_term(c, term, rest)});
    ellipsis = std::max(ellipsis, dots ? rest : 0);
  }
  const Labels output =
      e.has_output ? parse_term(c, e.output, ellipsis) : implicit_output(operands, ellipsis);

  std::map<int, int64_t> sizes;
  for (Operand& x : operands) {
    take_diagonals(c, x);
    for (size_t i = 0; i < x.labels.size(); ++i) {
      int64_t& size = sizes.try_emplace(x.labels[i], 1).first->second;
      const int64_t dim = x.v.dim(static_cast<int64_t>(i));
      if (size != dim && size != 1 && dim != 1) c.invalid("a label has two sizes");
      if (size == 1) size = dim;
    }
  }
  for (size_t i = 0; i < output.size(); ++i) {
    if (!sizes.contains(output[i])) c.invalid("the output has a label that no operand has");
    if (std::count(output.begin(), output.end(), output[i]) > 1) {
      c.invalid("the output repeats a label");
    }
  }
  for (Operand& x : operands) drop_ones(x, sizes);

  Operand result;
  for (size_t i = 0; i < operands.size(); ++i) {
    Labels later = output;
    for (size_t j = i + 1; j < operands.size(); ++j) {
      later.insert(later.end(), operands[j].labels.begin(), operands[j].labels.end());
    }
    if (i == 0) {
      result = operands[0];
    } else {
      const Labels seen = joined_labels({&later, &result.labels});
      sum_out(operands[i], seen);
      result = contract(result, operands[i], later);
    }
    sum_out(result, later);
  }
  c.set(arranged(result, output));
}

constexpr LoweringRow kRows[] = {{"", "Einsum", 12, lower_einsum}};

}  // namespace

std::span<const LoweringRow> einsum_lowerings() { return kRows; }

}  // namespace trainrt::lowering
