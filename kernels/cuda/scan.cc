// CumSum, CumProd and TopK.
#include "kernels/cuda/device/scan.h"

#include <array>
#include <bit>

#include "kernels/cuda/sort.h"
#include "kernels/cuda/strided.h"

namespace trainrt::cuda {
namespace {

std::unique_ptr<Kernel> plan_cum(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<CumAttrs>();
  const Shape& shape = node.outputs[0].shape;
  const auto axis = static_cast<size_t>(attrs.axis);
  CumArguments args{};
  args.size = shape[axis];
  args.inner = size_of(shape, axis + 1, shape.size());
  args.rows = size_of(shape, 0, axis) * args.inner;
  args.exclusive = attrs.exclusive;
  args.reverse = attrs.reverse;
  // Neighbouring threads read neighbours: along the axis, or across.
  args.blocks = args.inner < 16 && args.size > 16;
  const int64_t tasks = args.blocks ? 512 : 65536;  // that keep a GPU busy
  const int64_t least = args.blocks ? 4096 : 64;
  const int64_t rows = std::max<int64_t>(1, args.rows), useful = args.size / least;
  args.chunks = std::clamp<int64_t>(std::min(tasks / rows, useful), 1, 1024);
  args.chunk = std::max<int64_t>(1, (args.size + args.chunks - 1) / args.chunks);
  args.chunks = std::max<int64_t>(1, (args.size + args.chunk - 1) / args.chunk);
  const size_t totals =
      args.chunks == 1 ? 0 : book(scratch, static_cast<size_t>(args.rows * args.chunks) * 8);
  const std::string name = node.op == Op::kCumSum ? "cum_sum" : "cum_prod";
  const DType type = node.outputs[0].dtype;
  const gpu::Function* add = function(scratch, name + "_totals", type);
  const gpu::Function* f = function(scratch, name, type);
  return make_kernel([=](const KernelArgs& k) {
    if (args.rows * args.size == 0) return;
    CumArguments a = args;
    a.in = k.in[0];
    a.out = k.out[0];
    a.totals = scratch_at<void>(k, totals);
    const auto grid = [&](int64_t tasks) {
      return a.blocks ? blocks_of(tasks) : blocks_for(tasks);
    };
    if (a.chunks > 1) k.stream->launch(add, grid(a.rows * (a.chunks - 1)), kThreads, a);
    k.stream->launch(f, grid(a.rows * a.chunks), kThreads, a);
  });
}

Support takes_top_k(const NodeView& node) {
  const auto axis = static_cast<size_t>(node.attr<TopKAttrs>().axis);
  return is_far(node.inputs[0].shape[axis]) ? Support::no("takes axes of up to 2^31 elements")
                                            : Support::yes();
}

/// One step towards the first k: every chunk of entries is sorted and keeps the first.
struct Level {
  int64_t entries, chunks, keep;
  unsigned width, slots;
};

std::vector<Level> levels_of(int64_t size, int64_t k) {
  std::vector<Level> levels;
  for (int64_t entries = size;;) {
    Level l{};
    l.entries = entries;
    l.width = static_cast<unsigned>(
        std::bit_ceil(static_cast<uint64_t>(std::clamp<int64_t>(entries, 2, int64_t{kSortSlots}))));
    l.slots = std::max(l.width, 2 * kThreads);
    l.chunks = (entries + l.width - 1) / l.width;
    l.keep = std::min<int64_t>(k, l.width);
    levels.push_back(l);
    if (l.chunks == 1) return levels;
    entries = l.chunks * l.keep;
  }
}

std::unique_ptr<Kernel> plan_sorted(const TopKArguments& args, DType type, Scratch& scratch) {
  const bool wide = dtype_size(type) == 8;
  const RowSort sort(args.rows, args.size, wide ? DType::kUInt64 : DType::kUInt32, wide ? 64 : 32,
                     scratch);
  return make_kernel([args, sort, keys = function(scratch, "top_k_keys", type),
                      store = function(scratch, "top_k_store", type)](const KernelArgs& k) {
    TopKArguments a = args;
    a.in = k.in[0];
    a.values = k.out[0];
    a.indices = k.output<long long>(1);
    a.next_keys = sort.keys(k);
    k.stream->launch(keys, blocks_for(a.rows * a.size), kThreads, a);
    sort.run(k);
    a.order = sort.order(k);
    k.stream->launch(store, blocks_for(a.rows * a.k), kThreads, a);
  });
}

std::unique_ptr<Kernel> plan_top_k(const NodeView& node, Scratch& scratch) {
  const auto& attrs = node.attr<TopKAttrs>();
  const Shape& shape = node.inputs[0].shape;
  const DType type = node.inputs[0].dtype;
  const auto axis = static_cast<size_t>(attrs.axis);
  TopKArguments args{};
  args.size = shape[axis];
  args.inner = size_of(shape, axis + 1, shape.size());
  args.rows = size_of(shape, 0, axis) * args.inner;
  args.k = attrs.k;
  args.largest = attrs.largest;
  if (args.rows * args.k == 0) return make_kernel([](const KernelArgs&) {});
  // Each level halves the entries at least, or the rows are better sorted as a whole.
  if (args.size > kSortSlots && args.k > kSortSlots / 2) return plan_sorted(args, type, scratch);
  const std::vector<Level> levels = levels_of(args.size, args.k);
  size_t keys[2] = {0, 0}, order[2] = {0, 0};  // what two levels leave
  for (size_t l = 0; l < 2 && l + 1 < levels.size(); ++l) {
    const auto n = static_cast<size_t>(args.rows * levels[l].chunks * levels[l].keep);
    keys[l] = book(scratch, n * sizeof(uint64_t));
    order[l] = book(scratch, n * sizeof(unsigned));
  }
  return make_kernel([=, keys = std::to_array(keys), order = std::to_array(order),
                      f = function(scratch, "top_k", type)](const KernelArgs& k) {
    TopKArguments a = args;
    a.in = k.in[0];
    a.values = k.out[0];
    a.indices = k.output<long long>(1);
    for (size_t l = 0; l < levels.size(); ++l) {
      const bool final = l + 1 == levels.size();
      a.keys = l == 0 ? nullptr : a.next_keys;
      a.order = l == 0 ? nullptr : a.next_order;
      a.next_keys = final ? nullptr : scratch_at<void>(k, keys[l % 2]);
      a.next_order = final ? nullptr : scratch_at<unsigned>(k, order[l % 2]);
      a.entries = levels[l].entries;
      a.chunks = levels[l].chunks;
      a.keep = levels[l].keep;
      a.width = levels[l].width;
      a.slots = levels[l].slots;
      const int64_t groups = a.slots / a.width;
      k.stream->launch(f, blocks_of((a.rows * a.chunks + groups - 1) / groups), kThreads, a);
    }
  });
}

constexpr KernelRow kRows[] = {
    {Op::kCumSum, "cuda.cumulate", nullptr, plan_cum, true},
    {Op::kCumProd, "cuda.cumulate", nullptr, plan_cum, true},
    {Op::kTopK, "cuda.top_k", takes_top_k, plan_top_k},
};

}  // namespace

std::span<const KernelRow> scan_rows() { return kRows; }

}  // namespace trainrt::cuda
