// Convolutions whose windows tile the image and whose pixels are then read as tokens: products.
#include <algorithm>

#include "graph/passes/raise.h"

namespace trainrt {
namespace {

// Below, a window is too short a row for a product, and moving it costs more than it saves.
constexpr int64_t kLeastInner = 32;

bool tiles_image(const ConvAttrs& a, const Shape& x, const Shape& w) {
  if (a.group != 1 || a.relu) return false;
  int64_t inner = x[1];
  for (size_t i = 0; i < a.strides.size(); ++i) {
    const int64_t kernel = w[i + 2];
    if (a.strides[i] != kernel || a.dilations[i] != 1 || x[i + 2] % kernel != 0) return false;
    if (a.pads_begin[i] != 0 || a.pads_end[i] != 0) return false;
    inner *= kernel;
  }
  return inner >= kLeastInner;
}

/// Axis 1 goes last, all others keep their order.
bool channels_last(const std::vector<int64_t>& perm) {
  if (perm.size() < 3 || perm.front() != 0 || perm.back() != 1) return false;
  for (size_t i = 1; i + 1 < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i) + 1) return false;
  }
  return true;
}

/// [N, C, o1 k1, o2 k2, …] to [N o1 o2 …, C k1 k2 …].
Var windows(Builder& b, Var x, const Shape& w) {
  const Shape image = x.shape();
  const int64_t axes = std::ssize(w) - 2;
  Shape split{image[0], image[1]};
  std::vector<int64_t> perm{0}, inside{1};
  int64_t rows = image[0];
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t kernel = w[static_cast<size_t>(i + 2)];
    const int64_t count = image[static_cast<size_t>(i + 2)] / kernel;
    split.insert(split.end(), {count, kernel});
    perm.push_back(2 + 2 * i);
    inside.push_back(3 + 2 * i);
    rows *= count;
  }
  perm.insert(perm.end(), inside.begin(), inside.end());
  x = b.add(Op::kReshape, {x}, ShapeAttrs{std::move(split)});
  x = b.add(Op::kTranspose, {x}, PermAttrs{std::move(perm)});
  return b.add(Op::kReshape, {x}, ShapeAttrs{{rows, element_count(w) / w[0]}});
}

Replacement multiply_patches(Builder& b, const Node& node, std::span<const Var>,
                             const RaiseContext& c) {
  if (node.op != Op::kTranspose || !channels_last(std::get<PermAttrs>(node.attrs).perm)) return {};
  const Node* flat = c.inner(node.inputs[0], Op::kReshape);
  const Node* conv = c.inner(flat != nullptr ? flat->inputs[0] : node.inputs[0], Op::kConv);
  if (conv == nullptr) return {};
  const Shape &x = c.shape(conv->inputs[0]), &w = c.shape(conv->inputs[1]);
  const Shape& read = c.shape(node.inputs[0]);
  if (read[0] != x[0] || read[1] != w[0]) return {};
  if (!tiles_image(std::get<ConvAttrs>(conv->attrs), x, w)) return {};
  const Var rows = windows(b, c.var(conv->inputs[0]), w);
  const Var filters =
      b.add(Op::kReshape, {c.var(conv->inputs[1])}, ShapeAttrs{{w[0], rows.shape()[1]}});
  Var y = b.add(Op::kMatMul, {rows, filters}, MatMulAttrs{false, true});
  if (conv->inputs.size() > 2) y = y + c.var(conv->inputs[2]);
  return {{b.add(Op::kReshape, {y}, ShapeAttrs{c.shape(node.outputs[0])})}};
}

constexpr RaiseRule kRules[] = {{"multiply_patches", multiply_patches}};

}  // namespace

std::span<const RaiseRule> raise_patch_rules() { return kRules; }

}  // namespace trainrt
