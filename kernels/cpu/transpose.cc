// Transpose: runs are copied where the last axis stays last, else two axes trade places in tiles.
#include <algorithm>

#include "hwy/highway.h"
#include "kernels/cpu/copy.h"
#include "kernels/cpu/rows.h"

namespace trainrt {
namespace {

constexpr int64_t kTile = 32;

/// out[a * out_stride + b] = in[b * in_stride + a] for a < rows, b < columns.
template <typename T>
void transpose_tile(const T* in, int64_t in_stride, T* out, int64_t out_stride, int64_t rows,
                    int64_t columns) {
  int64_t a = 0;
  if constexpr (sizeof(T) == 4) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::FixedTag<uint32_t, 4> d;
    for (; a + 4 <= rows; a += 4) {
      int64_t b = 0;
      for (; b + 4 <= columns; b += 4) {
        const T* from = in + b * in_stride + a;
        const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + in_stride),
                   r2 = hn::LoadU(d, from + 2 * in_stride), r3 = hn::LoadU(d, from + 3 * in_stride);
        const auto lo02 = hn::InterleaveLower(d, r0, r2), hi02 = hn::InterleaveUpper(d, r0, r2);
        const auto lo13 = hn::InterleaveLower(d, r1, r3), hi13 = hn::InterleaveUpper(d, r1, r3);
        T* to = out + a * out_stride + b;
        hn::StoreU(hn::InterleaveLower(d, lo02, lo13), d, to);
        hn::StoreU(hn::InterleaveUpper(d, lo02, lo13), d, to + out_stride);
        hn::StoreU(hn::InterleaveLower(d, hi02, hi13), d, to + 2 * out_stride);
        hn::StoreU(hn::InterleaveUpper(d, hi02, hi13), d, to + 3 * out_stride);
      }
      for (; b < columns; ++b) {
        for (int64_t k = a; k < a + 4; ++k) out[k * out_stride + b] = in[b * in_stride + k];
      }
    }
  }
  for (; a < rows; ++a) {
    for (int64_t b = 0; b < columns; ++b) out[a * out_stride + b] = in[b * in_stride + a];
  }
}

/// Axis `run` of the output is the input's innermost; the output's own innermost is the last one.
struct TilePlan {
  int64_t rows, columns, out_stride, in_stride, tiles;
  StridedLoop<2> outer;
};

TilePlan tile_plan(const StridedLoop<2>& loop, size_t run) {
  TilePlan p{loop.dim(run), loop.inner(), loop.stride(0, run), loop.inner_stride(1), 0, {}};
  Shape shape;
  std::array<std::vector<int64_t>, 2> strides;
  for (size_t d = 0; d + 1 < loop.rank(); ++d) {
    if (d == run) continue;
    shape.push_back(loop.dim(d));
    for (size_t k = 0; k < 2; ++k) strides[k].push_back(loop.stride(k, d));
  }
  p.outer = StridedLoop<2>(shape, strides);
  p.tiles = (p.rows + kTile - 1) / kTile;
  return p;
}

template <typename T>
void transpose(const TilePlan& p, const void* from, void* to) {
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  parallel_items(p.outer.total() * p.tiles, std::min(kTile, p.rows) * p.columns,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t o = i / p.tiles, a = i % p.tiles * kTile;
                     const auto cursor = p.outer.at(o / p.outer.inner());
                     const int64_t r = o % p.outer.inner();
                     const T* x = in + cursor.offset(1) + r * p.outer.inner_stride(1) + a;
                     T* y = out + cursor.offset(0) + r * p.outer.inner_stride(0) + a * p.out_stride;
                     for (int64_t b = 0; b < p.columns; b += kTile) {
                       transpose_tile(x + b * p.in_stride, p.in_stride, y + b, p.out_stride,
                                      std::min(kTile, p.rows - a), std::min(kTile, p.columns - b));
                     }
                   }
                 });
}

Support takes_transpose(const NodeView& node) {
  return node.inputs[0].rank() <= kMaxLoopRank ? Support::yes()
                                               : Support::no("takes tensors up to rank 8");
}

std::unique_ptr<Kernel> plan_transpose(const NodeView& node, Scratch&) {
  const auto& perm = node.attr<PermAttrs>().perm;
  const Shape& shape = node.outputs[0].shape;
  const std::vector<int64_t> in = dense_strides(node.inputs[0].shape);
  std::vector<int64_t> strides;
  for (int64_t axis : perm) strides.push_back(in[static_cast<size_t>(axis)]);
  const StridedLoop<2> loop(shape, {dense_strides(shape), strides});
  const size_t size = dtype_size(node.outputs[0].dtype);
  size_t run = 0;
  while (run + 1 < loop.rank() && loop.stride(1, run) != 1) ++run;
  if (loop.total() == 0 || run + 1 == loop.rank()) {
    return make_kernel(
        [=](const KernelArgs& args) { copy_box(loop, size, args.out[0], args.in[0]); });
  }
  return make_kernel([p = tile_plan(loop, run), size](const KernelArgs& args) {
    switch (size) {
      case 1:
        return transpose<uint8_t>(p, args.in[0], args.out[0]);
      case 2:
        return transpose<uint16_t>(p, args.in[0], args.out[0]);
      case 4:
        return transpose<uint32_t>(p, args.in[0], args.out[0]);
      default:
        return transpose<uint64_t>(p, args.in[0], args.out[0]);
    }
  });
}

constexpr KernelRow kRows[] = {
    {Op::kTranspose, "cpu.transpose", takes_transpose, plan_transpose, false},
};

}  // namespace

std::span<const KernelRow> transpose_rows() { return kRows; }

}  // namespace trainrt
