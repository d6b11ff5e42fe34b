// Recurrent layers step by step: a product with weights packed once a call, and a fused cell. The
// weights' gradient is one product over all steps at the end.
#include <cstring>

#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/recurrent_cells.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

namespace trainrt {
namespace {

using Dims = dnnl::memory::dims;

struct Sizes {
  int64_t steps, batch, hidden;
  bool reverse, linear;

  Sizes(const Shape& states, const RecurrentAttrs& attr)
      : steps(states[0]),
        batch(states[1]),
        hidden(states[2]),
        reverse(attr.reverse),
        linear(attr.linear_before_reset) {}

  /// The k-th step in order of computation.
  int64_t step(int64_t k) const { return reverse ? steps - 1 - k : k; }
  /// Elements of one part of a step.
  int64_t part() const { return batch * hidden; }
  /// The state before the k-th step.
  const float* before(int64_t k, const float* initial, const float* states) const {
    return k == 0 ? initial : states + step(k - 1) * part();
  }
};

/// f(sample, unit, count) for pieces of a step, in parallel. Pieces do not depend on the threads.
template <typename F>
void for_each_piece(const Sizes& s, const F& f) {
  constexpr int64_t kUnits = 64, kGrain = 16;
  const int64_t pieces = (s.hidden + kUnits - 1) / kUnits;
  parallel_ranges(s.batch * pieces, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t unit = p % pieces * kUnits;
      f(p / pieces, unit, std::min(kUnits, s.hidden - unit));
    }
  });
}

/// A float matrix in memory, and whether a product reads it transposed.
struct Matrix {
  int64_t rows, columns, stride;
  bool transposed = false;

  dnnl::memory::desc desc(bool bf16 = false) const {
    const auto type = bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
    return transposed ? dnnl::memory::desc({columns, rows}, type, Dims{1, stride})
                      : dnnl::memory::desc({rows, columns}, type, Dims{stride, 1});
  }
};

/// An operand of a product: as it is, or as a dense copy in bfloat16.
class ProductOperand {
 public:
  dnnl::memory::desc init(const Matrix& m, bool bf16, Scratch& booked) {
    matrix_ = m;
    bf16_ = bf16;
    if (!bf16) return m.desc();
    buffer_ = book(booked, static_cast<size_t>(m.rows * m.columns) * sizeof(uint16_t));
    return Matrix{m.rows, m.columns, m.columns, m.transposed}.desc(true);
  }
  void* read(const KernelArgs& args, const float* x) const {
    if (!bf16_) return const_cast<float*>(x);
    uint16_t* y = scratch_at<uint16_t>(args, buffer_);
    parallel_items(matrix_.rows, matrix_.columns, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        to_bf16(x + r * matrix_.stride, y + r * matrix_.columns, matrix_.columns);
      }
    });
    return y;
  }

 private:
  Matrix matrix_{};
  bool bf16_ = false;
  size_t buffer_ = 0;
};

dnnl::matmul::primitive_desc product_desc(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                          const dnnl::memory::desc& c, bool accumulate) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
  }
  return {onednn_engine(), a, b, c, attr};
}

OneDnnPrimitive product_of(const dnnl::matmul::primitive_desc& pd) {
  return {dnnl::matmul(pd),
          {{DNNL_ARG_SRC, pd.src_desc()},
           {DNNL_ARG_WEIGHTS, pd.weights_desc()},
           {DNNL_ARG_DST, pd.dst_desc()},
           {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}}};
}

/// c (+)= a b
class Product {
 public:
  void init(const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate, bool bf16,
            Scratch& booked) {
    const auto da = a_.init(a, bf16, booked), db = b_.init(b, bf16, booked);
    const dnnl::matmul::primitive_desc pd = product_desc(da, db, c.desc(), accumulate);
    scratch_ = book(booked, pd.scratchpad_desc().get_size());
    call_ = product_of(pd);
  }
  void run(const KernelArgs& args, const float* a, const float* b, float* c) const {
    call_.execute({a_.read(args, a), b_.read(args, b), c, scratch_at<char>(args, scratch_)});
  }

 private:
  ProductOperand a_, b_;
  OneDnnPrimitive call_;
  size_t scratch_ = 0;
};

/// A step's product with weights that are brought into oneDNN's layout once a call. With weights of
/// bfloat16 the other operand is rounded to it too.
class StepProduct {
 public:
  void init(const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate, bool bf16,
            Scratch& booked) {
    const dnnl::memory::desc from = b.desc(bf16);
    const dnnl::memory::desc any(from.get_dims(), from.get_data_type(),
                                 dnnl::memory::format_tag::any);
    const auto pd = product_desc(a_.init(a, bf16, booked), any, c.desc(), accumulate);
    const dnnl::memory::desc packed = pd.weights_desc();
    work_ = book(booked, pd.scratchpad_desc().get_size());
    call_ = product_of(pd);
    packed_ = book(booked, packed.get_size());
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc reorder(onednn_engine(), from, onednn_engine(), packed,
                                                attr);
    scratch_ = book(booked, reorder.scratchpad_desc().get_size());
    pack_ =
        OneDnnPrimitive(dnnl::reorder(reorder), {{DNNL_ARG_FROM, from},
                                                 {DNNL_ARG_TO, packed},
                                                 {DNNL_ARG_SCRATCHPAD, reorder.scratchpad_desc()}});
  }
  void pack(const KernelArgs& args, const void* b) const {
    pack_.execute(
        {const_cast<void*>(b), scratch_at<char>(args, packed_), scratch_at<char>(args, scratch_)});
  }
  void run(const KernelArgs& args, const float* a, float* c) const {
    call_.execute(
        {a_.read(args, a), scratch_at<char>(args, packed_), c, scratch_at<char>(args, work_)});
  }

 private:
  ProductOperand a_;
  OneDnnPrimitive call_, pack_;
  size_t packed_ = 0, scratch_ = 0, work_ = 0;
};

Matrix matrix(int64_t rows, int64_t columns, int64_t stride) { return {rows, columns, stride}; }
Matrix transposed(int64_t rows, int64_t columns, int64_t stride) {
  return {rows, columns, stride, true};
}

/// dr[j, u] = sum over steps and samples of d[…, j] h'[…, u]: one product of the first step, whose
/// state lies elsewhere, and one of the others.
class WeightGradient {
 public:
  /// `columns` of d, whose rows are `width` long.
  void init(const Sizes& s, int64_t columns, int64_t width, bool bf16, Scratch& booked) {
    s_ = s;
    width_ = width;
    const auto dr = matrix(columns, s.hidden, s.hidden);
    first_.init(transposed(s.batch, columns, width), matrix(s.batch, s.hidden, s.hidden), dr, false,
                bf16, booked);
    const int64_t rows = (s.steps - 1) * s.batch;
    if (rows == 0) return;
    others_.init(transposed(rows, columns, width), matrix(rows, s.hidden, s.hidden), dr, true, bf16,
                 booked);
  }
  void run(const KernelArgs& args, const float* d, const float* initial, const float* y,
           float* dr) const {
    first_.run(args, d + s_.step(0) * s_.batch * width_, initial, dr);
    if (s_.steps == 1) return;
    others_.run(args, s_.reverse ? d : d + s_.batch * width_, s_.reverse ? y + s_.part() : y, dr);
  }

 private:
  Sizes s_{{0, 0, 0}, {}};
  int64_t width_ = 0;
  Product first_, others_;
};

Support takes_recurrent(const NodeView& node, const Shape& states) {
  Support s = all_float_or_bf16(node);
  if (!s.ok) return s;
  for (const auto list : {node.inputs, node.outputs}) {
    for (const TensorType& t : list) {
      if (is_bf16(t) && &t != &node.inputs[1]) return Support::no("takes bfloat16 weights only");
    }
  }
  if (is_bf16(node.inputs[1]) && !cpu_runs_bf16()) {
    return Support::no("this processor has no bfloat16 products");
  }
  if (states[1] == 0 || states[2] == 0) return Support::no("takes no empty states");
  // oneDNN 3.7 takes the wrong stride for operands of one column that are parts of wider rows.
  const bool parts = node.op == Op::kGru || node.op == Op::kGruGrad;
  return parts && states[2] == 1 ? Support::no("takes two hidden units or more") : s;
}
Support takes_layer(const NodeView& node) { return takes_recurrent(node, node.outputs[0].shape); }
Support takes_gradient(const NodeView& node) { return takes_recurrent(node, node.inputs[0].shape); }

// [i o f g] = sigmoid, sigmoid, sigmoid, tanh of x + h' r^T, c = f c' + i g, y = o tanh c
class LstmKernel final : public Kernel {
 public:
  LstmKernel(const NodeView& node, Scratch& scratch)
      : s_(node.outputs[0].shape, node.attr<RecurrentAttrs>()) {
    const int64_t n = s_.hidden;
    product_ = book(scratch, static_cast<size_t>(4 * s_.part()) * sizeof(float));
    step_.init(matrix(s_.batch, n, n), transposed(4 * n, n, n), matrix(s_.batch, 4 * n, 4 * n),
               false, is_bf16(node.inputs[1]), scratch);
  }

  void run(const KernelArgs& args) const override {
    float *y = args.output<float>(0), *c = args.output<float>(1), *gates = args.output<float>(2);
    float* product = scratch_at<float>(args, product_);
    const RecurrentCells& cells = recurrent_cells();
    step_.pack(args, args.in[1]);
    for (int64_t k = 0; k < s_.steps; ++k) {
      const int64_t at = s_.step(k) * s_.part();
      const float *x = args.input<float>(0) + 4 * at, *c0 = s_.before(k, args.input<float>(3), c);
      step_.run(args, s_.before(k, args.input<float>(2), y), product);
      for_each_piece(s_, [&](int64_t b, int64_t u, int64_t count) {
        const int64_t one = b * s_.hidden + u, four = 4 * b * s_.hidden + u;
        cells.lstm(x + four, product + four, c0 + one, gates + 4 * at + four, c + at + one,
                   y + at + one, s_.hidden, count);
      });
    }
  }

 private:
  Sizes s_;
  StepProduct step_;
  size_t product_ = 0;
};

// dh = dy + dh', dc = dc' + dh o (1 - tanh^2 c) (+ the cell's own), then by the chain rule
// di = dc g i (1 - i), do = dh tanh c o (1 - o), df = dc c' f (1 - f), dg = dc i (1 - g^2);
// before it dc' = dc f, dh' = [di do df dg] r
class LstmGradKernel final : public Kernel {
 public:
  LstmGradKernel(const NodeView& node, Scratch& scratch)
      : s_(node.inputs[0].shape, node.attr<RecurrentAttrs>()),
        cell_gradient_(node.inputs.size() > 7) {
    const int64_t n = s_.hidden;
    const bool bf16 = is_bf16(node.inputs[1]);
    step_.init(matrix(s_.batch, 4 * n, 4 * n), matrix(4 * n, n, n), matrix(s_.batch, n, n), false,
               bf16, scratch);
    weights_.init(s_, 4 * n, 4 * n, bf16, scratch);
  }

  void run(const KernelArgs& args) const override {
    const float *dy = args.input<float>(0), *initial_h = args.input<float>(2),
                *y = args.input<float>(4), *c = args.input<float>(5), *gates = args.input<float>(6);
    float *dx = args.output<float>(0), *dh = args.output<float>(2), *dc = args.output<float>(3);
    const RecurrentCells& cells = recurrent_cells();
    step_.pack(args, args.in[1]);
    const size_t bytes = static_cast<size_t>(s_.part()) * sizeof(float);
    std::memset(dh, 0, bytes);
    std::memset(dc, 0, bytes);
    for (int64_t k = s_.steps; k-- > 0;) {
      const int64_t at = s_.step(k) * s_.part();
      const float* c0 = s_.before(k, args.input<float>(3), c);
      const float* own = cell_gradient_ ? args.input<float>(7) + at : nullptr;
      for_each_piece(s_, [&](int64_t b, int64_t u, int64_t count) {
        const int64_t one = b * s_.hidden + u, four = 4 * (at + b * s_.hidden) + u;
        cells.lstm_grad(dy + at + one, dh + one, own != nullptr ? own + one : nullptr, c0 + one,
                        c + at + one, gates + four, dx + four, dc + one, s_.hidden, count);
      });
      step_.run(args, dx + 4 * at, dh);
    }
    weights_.run(args, dx, initial_h, y, args.output<float>(1));
  }

 private:
  Sizes s_;
  bool cell_gradient_;
  StepProduct step_;
  WeightGradient weights_;
};

// z, r = sigmoid(x + h' r^T + bias); q = h' rn^T + bias_n and n = tanh(x + r q), or (reset first)
// q = r h' and n = tanh(x + q rn^T + bias_n); y = (1 - z) n + z h'. The gates are z, r, n, q.
class GruKernel final : public Kernel {
 public:
  GruKernel(const NodeView& node, Scratch& scratch)
      : s_(node.outputs[0].shape, node.attr<RecurrentAttrs>()) {
    const int64_t n = s_.hidden, parts = s_.linear ? 3 : 2;
    const bool bf16 = is_bf16(node.inputs[1]);
    fresh_part_ = 2 * n * n * static_cast<int64_t>(dtype_size(node.inputs[1].dtype));
    product_ = book(scratch, static_cast<size_t>(3 * s_.part()) * sizeof(float));
    step_.init(matrix(s_.batch, n, n), transposed(parts * n, n, n),
               matrix(s_.batch, parts * n, 3 * n), false, bf16, scratch);
    if (s_.linear) return;
    fresh_.init(matrix(s_.batch, n, 4 * n), transposed(n, n, n), matrix(s_.batch, n, 3 * n), false,
                bf16, scratch);
  }

  void run(const KernelArgs& args) const override {
    const float* bias = args.input<float>(2);
    float *y = args.output<float>(0), *product = scratch_at<float>(args, product_);
    const int64_t n = s_.hidden;
    const RecurrentCells& cells = recurrent_cells();
    step_.pack(args, args.in[1]);
    if (!s_.linear) fresh_.pack(args, args.input<char>(1) + fresh_part_);
    for (int64_t k = 0; k < s_.steps; ++k) {
      const int64_t at = s_.step(k) * s_.part();
      const float *x = args.input<float>(0) + 3 * at, *h0 = s_.before(k, args.input<float>(3), y);
      float *gates = args.output<float>(1) + 4 * at, *out = y + at;
      step_.run(args, h0, product);
      const auto piece = [&](auto cell) {
        for_each_piece(s_, [&](int64_t b, int64_t u, int64_t count) {
          const int64_t row = b * n;
          cell(x + 3 * row + u, product + 3 * row + u, bias + u, h0 + row + u, gates + 4 * row + u,
               out + row + u, count);
        });
      };
      if (s_.linear) {
        piece([&](auto... p) { call(cells.gru_linear, p...); });
        continue;
      }
      piece([&](const float* px, const float* pp, const float* pb, const float* ph, float* pg,
                float*, int64_t count) { cells.gru_reset(px, pp, pb, ph, pg, n, count); });
      fresh_.run(args, gates + 3 * n, product + 2 * n);
      piece([&](auto... p) { call(cells.gru_fresh, p...); });
    }
  }

 private:
  template <typename F>
  void call(F cell, const float* x, const float* product, const float* bias, const float* h0,
            float* gates, float* y, int64_t count) const {
    cell(x, product, bias, h0, gates, y, s_.hidden, count);
  }

  Sizes s_;
  StepProduct step_, fresh_;
  int64_t fresh_part_ = 0;  // bytes before the weights of n
  size_t product_ = 0;
};

// With a = dn (1 - n^2), dn = dh (1 - z), and dz = dh (h' - n): q's gradient is a r (the reset's
// a q), or (reset first) a rn (the reset's dq h'); dh' = dh z + what comes through the products
class GruGradKernel final : public Kernel {
 public:
  GruGradKernel(const NodeView& node, Scratch& scratch)
      : s_(node.inputs[0].shape, node.attr<RecurrentAttrs>()) {
    const int64_t n = s_.hidden, parts = s_.linear ? 3 : 2, rows = s_.steps * s_.batch;
    const bool bf16 = is_bf16(node.inputs[1]);
    fresh_part_ = 2 * n * n * static_cast<int64_t>(dtype_size(node.inputs[1].dtype));
    // Gradients of all recurrent parts, or one step's of q.
    extra_ =
        book(scratch, static_cast<size_t>(s_.linear ? 3 * rows * n : s_.part()) * sizeof(float));
    step_.init(matrix(s_.batch, parts * n, 3 * n), matrix(parts * n, n, n), matrix(s_.batch, n, n),
               true, bf16, scratch);
    weights_.init(s_, parts * n, 3 * n, bf16, scratch);
    if (s_.linear) return;
    fresh_.init(matrix(s_.batch, n, 3 * n), matrix(n, n, n), matrix(s_.batch, n, n), false, bf16,
                scratch);
    fresh_weights_.init(transposed(rows, n, 3 * n), matrix(rows, n, 4 * n), matrix(n, n, n), false,
                        bf16, scratch);
  }

  void run(const KernelArgs& args) const override {
    const float *initial = args.input<float>(2), *y = args.input<float>(3),
                *all_gates = args.input<float>(4);
    float *dx = args.output<float>(0), *dh = args.output<float>(3),
          *extra = scratch_at<float>(args, extra_);
    const int64_t n = s_.hidden;
    const RecurrentCells& cells = recurrent_cells();
    step_.pack(args, args.in[1]);
    if (!s_.linear) fresh_.pack(args, args.input<char>(1) + fresh_part_);
    std::memset(dh, 0, static_cast<size_t>(s_.part()) * sizeof(float));
    for (int64_t k = s_.steps; k-- > 0;) {
      const int64_t at = s_.step(k) * s_.part();
      const float *dy = args.input<float>(0) + at, *h0 = s_.before(k, initial, y),
                  *gates = all_gates + 4 * at;
      float *d = dx + 3 * at, *recurrent = s_.linear ? extra + 3 * at : d;
      for_each_piece(s_, [&](int64_t b, int64_t u, int64_t count) {
        const int64_t one = b * n + u, three = 3 * b * n + u, four = 4 * b * n + u;
        if (s_.linear) {
          cells.gru_linear_grad(dy + one, h0 + one, gates + four, d + three, recurrent + three,
                                dh + one, n, count);
        } else {
          cells.gru_fresh_grad(dy + one, h0 + one, gates + four, d + three, dh + one, n, count);
        }
      });
      if (!s_.linear) {
        fresh_.run(args, d + 2 * n, extra);
        for_each_piece(s_, [&](int64_t b, int64_t u, int64_t count) {
          const int64_t one = b * n + u;
          cells.gru_reset_grad(extra + one, h0 + one, gates + 4 * b * n + u, d + 3 * b * n + u,
                               dh + one, n, count);
        });
      }
      step_.run(args, recurrent, dh);
    }
    float *dr = args.output<float>(1), *dbias = args.output<float>(2);
    const float* recurrent = s_.linear ? extra : dx;
    weights_.run(args, recurrent, initial, y, dr);
    if (!s_.linear) fresh_weights_.run(args, dx + 2 * n, all_gates + 3 * n, dr + 2 * n * n);
    const int64_t rows = s_.steps * s_.batch;
    parallel_items(3 * n, rows, [&](int64_t begin, int64_t end) {
      vector_ops().column_sum(recurrent + begin, rows, 3 * n, dbias + begin, end - begin);
    });
  }

 private:
  Sizes s_;
  StepProduct step_, fresh_;
  WeightGradient weights_;
  Product fresh_weights_;
  int64_t fresh_part_ = 0;
  size_t extra_ = 0;
};

template <typename K>
std::unique_ptr<Kernel> plan(const NodeView& node, Scratch& scratch) {
  return guard_onednn("planning a recurrent layer", [&]() -> std::unique_ptr<Kernel> {
    return std::make_unique<K>(node, scratch);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kLstm, "cpu.lstm", takes_layer, plan<LstmKernel>, false, false, true},
    {Op::kLstmGrad, "cpu.lstm_grad", takes_gradient, plan<LstmGradKernel>, false, false, true},
    {Op::kGru, "cpu.gru", takes_layer, plan<GruKernel>, false, false, true},
    {Op::kGruGrad, "cpu.gru_grad", takes_gradient, plan<GruGradKernel>, false, false, true},
};

}  // namespace

std::span<const KernelRow> recurrent_rows() { return kRows; }

}  // namespace trainrt
