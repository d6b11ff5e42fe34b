// Products: cuBLASLt, and tiles of our own for what it does not take.
#include "kernels/cuda/device/matmul.h"

#include "kernels/cuda/product.h"

namespace trainrt::cuda {
namespace {

/// A leading dim of the result, and the elements between its matrices of both operands.
struct Leading {
  int64_t size, a, b;
};

/// Leading dims are merged where both operands allow it, and become rows where b stays the same.
struct Problem {
  int64_t m = 0, n = 0, k = 0;
  std::vector<Leading> leading;  // outermost first, none of size 1
  bool trans_a = false, trans_b = false, bias = false, relu = false;

  int64_t batches() const {
    int64_t product = 1;
    for (const Leading& d : leading) product *= d.size;
    return product;
  }
  int64_t lda() const { return trans_a ? m : k; }
  int64_t ldb() const { return trans_b ? k : n; }
};

Problem problem_of(const NodeView& node) {
  const auto& attr = node.attr<MatMulAttrs>();
  const Shape &a = node.inputs[0].shape, &b = node.inputs[1].shape, &c = node.outputs[0].shape;
  const size_t rank = c.size();
  Problem p;
  p.m = c[rank - 2];
  p.n = c[rank - 1];
  p.k = a[a.size() - (attr.trans_a ? 2 : 1)];
  p.trans_a = attr.trans_a;
  p.trans_b = attr.trans_b;
  p.bias = node.inputs.size() > 2;
  p.relu = attr.relu;
  int64_t a_dense = p.m * p.k, b_dense = p.k * p.n;
  for (size_t d = rank - 2; d-- > 0;) {  // innermost first
    const auto size_in = [&](const Shape& s) {
      return d + s.size() < rank ? 1 : s[d + s.size() - rank];
    };
    const int64_t in_a = size_in(a), in_b = size_in(b);
    if (c[d] != 1) {
      const Leading outer = {c[d], in_a == 1 ? 0 : a_dense, in_b == 1 ? 0 : b_dense};
      a_dense *= in_a;
      b_dense *= in_b;
      if (!p.leading.empty()) {
        Leading& inner = p.leading.back();
        if (outer.a == inner.a * inner.size && outer.b == inner.b * inner.size) {
          inner.size *= outer.size;
          continue;
        }
      } else if (outer.b == 0 && outer.a == p.m * p.k && !p.trans_a) {
        p.m *= outer.size;
        continue;
      }
      p.leading.push_back(outer);
    }
  }
  std::reverse(p.leading.begin(), p.leading.end());
  return p;
}

bool is_empty(const NodeView& node) { return node.outputs[0].size() == 0; }

/// The bias alone.
std::unique_ptr<Kernel> plan_without_inner(const NodeView& node, const Problem& p,
                                           const Scratch& scratch) {
  return make_kernel([finish = Finish(node, scratch, 0, 1, p.n, p.relu)](const KernelArgs& args) {
    finish.run(args, nullptr);
  });
}

// Batches that no single stride describes take a call for each outer matrix.
constexpr int64_t kMostCalls = 64;

/// The leading dim that becomes the library's batch.
size_t widest(const Problem& p) {
  size_t best = 0;
  for (size_t d = 0; d < p.leading.size(); ++d) {
    if (p.leading[d].size > p.leading[best].size) best = d;
  }
  return best;
}

int64_t calls_of(const Problem& p) {
  return p.leading.empty() || p.batches() == 0 ? 1 : p.batches() / p.leading[widest(p)].size;
}

Support takes_library(const NodeView& node) {
  Support s = takes_factors(node);
  if (s.ok && calls_of(problem_of(node)) > kMostCalls) {
    return Support::no("takes batches of up to " + std::to_string(kMostCalls) + " calls");
  }
  return s;
}

class LibraryProduct final : public Kernel {
 public:
  /// Where the matrices of one call begin, in bytes.
  struct Matrices {
    int64_t a, b, c;
  };

  std::unique_ptr<gpu::LibraryCall> call;
  std::vector<Matrices> offsets;
  size_t workspace = 0;
  bool bias = false;      // the call adds it
  bool finishes = false;  // what the call leaves
  bool sums_in_scratch = false;
  size_t sums = 0;
  Finish finish;

  void run(const KernelArgs& args) const override {
    char* c = static_cast<char*>(sums_in_scratch ? scratch_at(args, sums) : args.out[0]);
    for (const Matrices& at : offsets) {
      const void* in[] = {args.input<char>(0) + at.a, args.input<char>(1) + at.b,
                          bias ? args.in[2] : nullptr};
      void* out[] = {c + at.c};
      call->run(*args.stream, in, out, scratch_at(args, workspace));
    }
    if (finishes) finish.run(args, c);
  }
};

std::unique_ptr<Kernel> plan_library(const NodeView& node, Scratch& scratch) {
  const Problem p = problem_of(node);
  if (is_empty(node)) return make_kernel([](const KernelArgs&) {});
  if (p.k == 0) return plan_without_inner(node, p, scratch);
  if (scratch.device == nullptr) return no_kernel();

  gpu::MatMulCall call;
  call.m = p.m;
  call.n = p.n;
  call.k = p.k;
  call.trans_a = p.trans_a;
  call.trans_b = p.trans_b;
  call.lda = p.lda();
  call.ldb = p.ldb();
  call.ldc = p.n;
  call.a = node.inputs[0].dtype;
  call.b = node.inputs[1].dtype;
  call.products = scratch.products;
  // Matrices of the result are dense, the last leading dim the fastest.
  std::vector<int64_t> c_strides(p.leading.size());
  int64_t matrices = 1;
  for (size_t d = p.leading.size(); d-- > 0;) {
    c_strides[d] = matrices * p.m * p.n;
    matrices *= p.leading[d].size;
  }
  const size_t batch = widest(p);
  if (!p.leading.empty()) {
    call.batch = p.leading[batch].size;
    call.stride_a = p.leading[batch].a;
    call.stride_b = p.leading[batch].b;
    call.stride_c = c_strides[batch];
  }

  auto kernel = std::make_unique<LibraryProduct>();
  const auto describe = [&](DType c, gpu::Epilogue epilogue) {
    call.c = c;
    call.epilogue = epilogue;
    call.alignment = 64;
    kernel->offsets.clear();
    const auto a_size = static_cast<int64_t>(dtype_size(call.a)),
               c_size = static_cast<int64_t>(dtype_size(c));
    for (int64_t i = 0; i < calls_of(p); ++i) {
      LibraryProduct::Matrices at = {0, 0, 0};
      int64_t rest = i;
      for (size_t d = p.leading.size(); d-- > 0;) {
        if (d == batch) continue;
        const int64_t index = rest % p.leading[d].size;
        rest /= p.leading[d].size;
        at.a += index * p.leading[d].a * a_size;
        at.b += index * p.leading[d].b * a_size;
        at.c += index * c_strides[d] * c_size;
      }
      while (((at.a | at.b | at.c) & (call.alignment - 1)) != 0) call.alignment /= 2;
      kernel->offsets.push_back(at);
    }
    std::string why;
    kernel->call = scratch.device->matmul(call, &why);
    return kernel->call != nullptr;
  };

  const DType result = node.outputs[0].dtype;
  const auto epilogue = p.bias   ? p.relu ? gpu::Epilogue::kBiasRelu : gpu::Epilogue::kBias
                        : p.relu ? gpu::Epilogue::kRelu
                                 : gpu::Epilogue::kNone;
  if (describe(result, epilogue)) {
    kernel->bias = p.bias;
  } else if (epilogue == gpu::Epilogue::kNone ||
             !describe(sum_type(result), gpu::Epilogue::kNone)) {
    return nullptr;
  } else {
    kernel->finishes = true;
    kernel->finish = Finish(node, scratch, 1, 1, p.n, p.relu);
    kernel->sums_in_scratch = result != sum_type(result);
    if (kernel->sums_in_scratch) {
      kernel->sums = book(scratch, static_cast<size_t>(node.outputs[0].size()) * sizeof(float));
    }
  }
  kernel->workspace = book(scratch, kernel->call->workspace_bytes());
  return kernel;
}

Support takes_tiles(const NodeView& node) {
  if (is_integer(node.outputs[0].dtype)) return Support::yes();
  return takes_factors(node);
}

std::unique_ptr<Kernel> plan_tiles(const NodeView& node, Scratch& scratch) {
  const Problem p = problem_of(node);
  if (is_empty(node)) return make_kernel([](const KernelArgs&) {});
  if (p.k == 0) return plan_without_inner(node, p, scratch);
  MatMulArguments shaped{};
  shaped.m = p.m;
  shaped.n = p.n;
  shaped.k = p.k;
  shaped.a_row = p.trans_a ? 1 : p.k;
  shaped.a_column = p.trans_a ? p.m : 1;
  shaped.b_row = p.trans_b ? 1 : p.n;
  shaped.b_column = p.trans_b ? p.k : 1;
  shaped.batches = p.batches();
  shaped.rank = static_cast<int>(p.leading.size());
  for (size_t d = 0; d < p.leading.size(); ++d) {
    shaped.sizes[d] = p.leading[d].size;
    shaped.a_strides[d] = p.leading[d].a;
    shaped.b_strides[d] = p.leading[d].b;
  }
  const int64_t tiles = (p.m + 63) / 64 * ((p.n + 63) / 64) * shaped.batches;
  const Parts parts = split_sum(tiles, p.k);
  shaped.part = parts.length;
  shaped.parts = parts.count;
  shaped.relu = p.relu;
  const bool split = parts.count > 1;
  const DType sum = sum_type(node.outputs[0].dtype);
  const size_t at = split
                        ? book(scratch, static_cast<size_t>(node.outputs[0].size() * parts.count) *
                                            dtype_size(sum))
                        : 0;
  return make_kernel(
      [=, bias = p.bias, f = function(scratch, "matmul_" + product_suffix(node)),
       finish = Finish(node, scratch, parts.count, 1, p.n, p.relu)](const KernelArgs& args) {
        MatMulArguments all = shaped;
        all.a = args.in[0];
        all.b = args.in[1];
        all.bias = bias ? args.in[2] : nullptr;
        all.c = split ? scratch_at(args, at) : args.out[0];
        args.stream->launch(f, blocks_of(tiles * all.parts), kThreads, all);
        if (split) finish.run(args, all.c);
      });
}

constexpr KernelRow kRows[] = {
    {Op::kMatMul, "cublaslt.matmul", takes_library, plan_library, false, false, true},
    {Op::kMatMul, "cuda.matmul", takes_tiles, plan_tiles, false, false, true},
};

}  // namespace

std::span<const KernelRow> matmul_rows() { return kRows; }

}  // namespace trainrt::cuda
