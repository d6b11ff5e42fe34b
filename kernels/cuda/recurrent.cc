// Lstm and Gru with their gradients: a product and a cell kernel for each step, given to the stream
// one after the other. cuDNN's RNN functions are not used: what they keep for the backward pass has
// a form of their own, and they want the input's product inside.
#include "kernels/cuda/device/recurrent.h"

#include <vector>

#include "kernels/cuda/product.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

/// A node within the kernel, run by its own rows at addresses of each step.
class Inner {
 public:
  Inner() = default;
  Inner(Op op, const Attrs& attrs, const std::vector<TensorType>& in, const TensorType& out,
        size_t alignment, Scratch& scratch) {
    const NodeView node{op, attrs, in, {&out, 1}};
    for (const KernelRow& row : op == Op::kMatMul ? matmul_rows() : reduce_rows()) {
      if (row.op != op || (row.supports != nullptr && !row.supports(node).ok)) continue;
      Scratch own{0, scratch.device, scratch.products, alignment};
      kernel_ = row.plan(node, own);
      if (kernel_ == nullptr) continue;
      scratch_ = book(scratch, own.bytes);
      return;
    }
    throw Error(ErrorCode::kInternal, "no kernel for a product within a recurrent layer");
  }

  void run(const KernelArgs& outer, const void* a, const void* b, void* result) const {
    const void* in[] = {a, b};
    void* out[] = {result};
    KernelArgs args = outer;
    args.in = in;
    args.out = out;
    args.scratch = scratch_at<char>(outer, scratch_);
    kernel_->run(args);
  }

 private:
  std::shared_ptr<Kernel> kernel_;
  size_t scratch_ = 0;
};

struct Layer {
  int64_t steps, batch, hidden;
  bool reverse, linear;
  DType type;
  size_t element;

  Layer(const NodeView& node, const TensorType& states)
      : steps(states.shape[0]),
        batch(states.shape[1]),
        hidden(states.shape[2]),
        reverse(node.attr<RecurrentAttrs>().reverse),
        linear(node.attr<RecurrentAttrs>().linear_before_reset),
        type(states.dtype),
        element(dtype_size(type)) {}

  int64_t rows() const { return batch * hidden; }
  bool empty() const { return steps * rows() == 0; }
  /// The k-th step in order of computation.
  int64_t step(int64_t k) const { return reverse ? steps - 1 - k : k; }
  /// Bytes of `columns` states of a batch.
  size_t bytes(int64_t columns) const { return static_cast<size_t>(rows() * columns) * element; }
  /// Of states of each step and of the parts of the weights.
  size_t alignment() const {
    const size_t places = bytes(1) | static_cast<size_t>(2 * hidden * hidden) * element | 64;
    return places & -places;
  }
  template <typename T>
  T* at(T* data, int64_t step_number, int64_t columns) const {
    return data + static_cast<size_t>(step_number) * bytes(columns);
  }
  /// The state before the k-th step, from the initial one and those of all steps.
  const char* before(const char* initial, const char* states, int64_t k) const {
    return k == 0 ? initial : at(states, step(k - 1), 1);
  }
  Inner product(int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,
                Scratch& scratch) const {
    MatMulAttrs attrs;
    attrs.trans_a = trans_a;
    attrs.trans_b = trans_b;
    const TensorType a{type, trans_a ? Shape{k, m} : Shape{m, k}},
        b{type, trans_b ? Shape{n, k} : Shape{k, n}};
    return Inner(Op::kMatMul, attrs, {a, b}, {type, {m, n}}, alignment(), scratch);
  }
  Inner column_sums(int64_t columns, Scratch& scratch) const {
    return Inner(Op::kReduceSum, ReduceAttrs{{0}, false}, {{type, {steps * batch, columns}}},
                 {type, {columns}}, alignment(), scratch);
  }
  /// Copies the states before each step, in the order of steps.
  void gather_before(const KernelArgs& k, const char* initial, const char* states,
                     char* all) const {
    for (int64_t i = 0; i < steps; ++i) {
      k.stream->copy_on_device(at(all, step(i), 1), before(initial, states, i), bytes(1));
    }
  }
};

Support takes_layer(const NodeView& node) { return all_float(node); }

std::unique_ptr<Kernel> plan_lstm(const NodeView& node, Scratch& scratch) {
  const Layer l(node, node.outputs[0]);
  if (scratch.device == nullptr) return no_kernel();
  if (l.empty()) return make_kernel([](const KernelArgs&) {});
  const size_t product_at = book(scratch, l.bytes(4));
  return make_kernel([=, product = l.product(l.batch, 4 * l.hidden, l.hidden, false, true, scratch),
                      f = function(scratch, "lstm_cell", l.type)](const KernelArgs& k) {
    char* pre = scratch_at<char>(k, product_at);
    for (int64_t i = 0; i < l.steps; ++i) {
      const int64_t t = l.step(i);
      CellArguments args{};
      args.h = l.before(k.input<char>(2), k.output<char>(0), i);
      args.c = l.before(k.input<char>(3), k.output<char>(1), i);
      product.run(k, args.h, k.in[1], pre);
      args.x = l.at(k.input<char>(0), t, 4);
      args.product = pre;
      args.y = l.at(k.output<char>(0), t, 1);
      args.c_out = l.at(k.output<char>(1), t, 1);
      args.gates = l.at(k.output<char>(2), t, 4);
      args.batch = l.batch;
      args.hidden = l.hidden;
      k.stream->launch(f, blocks_for(l.rows()), kThreads, args);
    }
  });
}

std::unique_ptr<Kernel> plan_lstm_grad(const NodeView& node, Scratch& scratch) {
  const Layer l(node, node.inputs[0]);
  if (scratch.device == nullptr) return no_kernel();
  std::vector<size_t> sizes;
  for (const TensorType& t : node.outputs) sizes.push_back(t.bytes());
  if (l.empty()) {
    return make_kernel([sizes](const KernelArgs& k) {
      for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] > 0) k.stream->zero(k.out[i], sizes[i]);
      }
    });
  }
  const size_t back_at = book(scratch, l.bytes(1)), before_at = book(scratch, l.bytes(l.steps));
  return make_kernel(
      [=, given = node.inputs.size() > 7,
       back_product = l.product(l.batch, l.hidden, 4 * l.hidden, false, false, scratch),
       weights = l.product(4 * l.hidden, l.hidden, l.steps * l.batch, true, false, scratch),
       f = function(scratch, "lstm_cell_grad", l.type)](const KernelArgs& k) {
        char* dc = k.output<char>(3);
        k.stream->zero(dc, l.bytes(1));
        for (int64_t i = l.steps; i-- > 0;) {
          const int64_t t = l.step(i);
          // The last one is the gradient of the initial state.
          char* back = i == 0 ? k.output<char>(2) : scratch_at<char>(k, back_at);
          CellGradArguments args{};
          args.dy = l.at(k.input<char>(0), t, 1);
          args.dc_given = given ? l.at(k.input<char>(7), t, 1) : nullptr;
          args.c_before = l.before(k.input<char>(3), k.input<char>(5), i);
          args.c = l.at(k.input<char>(5), t, 1);
          args.gates = l.at(k.input<char>(6), t, 4);
          args.back[0] = i + 1 < l.steps ? scratch_at<char>(k, back_at) : nullptr;
          args.dc = dc;
          args.dx = l.at(k.output<char>(0), t, 4);
          args.batch = l.batch;
          args.hidden = l.hidden;
          k.stream->launch(f, blocks_for(l.rows()), kThreads, args);
          back_product.run(k, args.dx, k.in[1], back);
        }
        char* before = scratch_at<char>(k, before_at);
        l.gather_before(k, k.input<char>(2), k.input<char>(4), before);
        weights.run(k, k.out[0], before, k.out[1]);
      });
}

std::unique_ptr<Kernel> plan_gru(const NodeView& node, Scratch& scratch) {
  const Layer l(node, node.outputs[0]);
  if (scratch.device == nullptr) return no_kernel();
  if (l.empty()) return make_kernel([](const KernelArgs&) {});
  const int64_t first = l.linear ? 3 : 2;  // gates that read the state itself
  const size_t product_at = book(scratch, l.bytes(first)), q_at = book(scratch, l.bytes(1)),
               fresh_at = book(scratch, l.bytes(1));
  return make_kernel(
      [=, product = l.product(l.batch, first * l.hidden, l.hidden, false, true, scratch),
       product_n = l.product(l.batch, l.hidden, l.hidden, false, true, scratch),
       cell = function(scratch, l.linear ? "gru_cell_linear" : "gru_cell_reset", l.type),
       fresh = function(scratch, "gru_cell_fresh", l.type)](const KernelArgs& k) {
        const char* weights_n =
            k.input<char>(1) + static_cast<size_t>(2 * l.hidden * l.hidden) * l.element;
        for (int64_t i = 0; i < l.steps; ++i) {
          const int64_t t = l.step(i);
          CellArguments args{};
          args.h = l.before(k.input<char>(3), k.output<char>(0), i);
          product.run(k, args.h, k.in[1], scratch_at<char>(k, product_at));
          args.x = l.at(k.input<char>(0), t, 3);
          args.product = scratch_at<char>(k, product_at);
          args.product_n = scratch_at<char>(k, fresh_at);
          args.bias = k.in[2];
          args.y = l.at(k.output<char>(0), t, 1);
          args.gates = l.at(k.output<char>(1), t, 4);
          args.q = scratch_at<char>(k, q_at);
          args.batch = l.batch;
          args.hidden = l.hidden;
          k.stream->launch(cell, blocks_for(l.rows()), kThreads, args);
          if (l.linear) continue;
          product_n.run(k, args.q, weights_n, scratch_at<char>(k, fresh_at));
          k.stream->launch(fresh, blocks_for(l.rows()), kThreads, args);
        }
      });
}

std::unique_ptr<Kernel> plan_gru_grad(const NodeView& node, Scratch& scratch) {
  const Layer l(node, node.inputs[0]);
  if (scratch.device == nullptr) return no_kernel();
  std::vector<size_t> sizes;
  for (const TensorType& t : node.outputs) sizes.push_back(t.bytes());
  if (l.empty()) {
    return make_kernel([sizes](const KernelArgs& k) {
      for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] > 0) k.stream->zero(k.out[i], sizes[i]);
      }
    });
  }
  const size_t zr_at = book(scratch, l.bytes(2 * l.steps)), n_at = book(scratch, l.bytes(l.steps)),
               q_at = book(scratch, l.bytes(l.steps)), before_at = book(scratch, l.bytes(l.steps)),
               through_at = book(scratch, l.bytes(1)), back_at = book(scratch, l.bytes(1)),
               back_n_at = book(scratch, l.bytes(1)), dq_at = book(scratch, l.bytes(1));
  const int64_t all = l.steps * l.batch, h = l.hidden;
  return make_kernel([=, back_zr = l.product(l.batch, h, 2 * h, false, false, scratch),
                      back_n = l.product(l.batch, h, h, false, false, scratch),
                      weights_zr = l.product(2 * h, h, all, true, false, scratch),
                      weights_n = l.product(h, h, all, true, false, scratch),
                      bias_zr = l.column_sums(2 * h, scratch), bias_n = l.column_sums(h, scratch),
                      fresh = function(scratch, "gru_cell_grad_fresh", l.type),
                      reset = function(scratch, "gru_cell_grad_reset", l.type),
                      sum = function(scratch, "cell_sum", l.type)](const KernelArgs& k) {
    const char* rn = k.input<char>(1) + static_cast<size_t>(2 * h * h) * l.element;
    char *d_zr = scratch_at<char>(k, zr_at), *d_n = scratch_at<char>(k, n_at),
         *q = scratch_at<char>(k, q_at), *through = scratch_at<char>(k, through_at),
         *back = scratch_at<char>(k, back_at), *back_fresh = scratch_at<char>(k, back_n_at),
         *dq = scratch_at<char>(k, dq_at);
    k.stream->zero(through, l.bytes(1));
    for (int64_t i = l.steps; i-- > 0;) {
      const int64_t t = l.step(i);
      const bool last = i + 1 == l.steps;
      CellGradArguments args{};
      args.dy = l.at(k.input<char>(0), t, 1);
      args.gates = l.at(k.input<char>(4), t, 4);
      args.h = l.before(k.input<char>(2), k.input<char>(3), i);
      args.back[0] = last ? nullptr : back;
      args.back[1] = last || !l.linear ? nullptr : back_fresh;
      args.dq = dq;
      args.through = through;
      args.dx = l.at(k.output<char>(0), t, 3);
      args.d_zr = l.at(d_zr, t, 2);
      args.d_n = l.at(d_n, t, 1);
      args.q = l.at(q, t, 1);
      args.batch = l.batch;
      args.hidden = h;
      args.linear = l.linear;
      k.stream->launch(fresh, blocks_for(l.rows()), kThreads, args);
      if (l.linear) {
        back_n.run(k, args.d_n, rn, back_fresh);
      } else {
        back_n.run(k, args.d_n, rn, dq);
        k.stream->launch(reset, blocks_for(l.rows()), kThreads, args);
      }
      back_zr.run(k, args.d_zr, k.in[1], back);
    }
    const CellSumArguments initial{
        {through, back, l.linear ? back_fresh : nullptr}, k.out[3], l.rows()};
    k.stream->launch(sum, blocks_for(l.rows()), kThreads, initial);
    char* before = scratch_at<char>(k, before_at);
    l.gather_before(k, k.input<char>(2), k.input<char>(3), before);
    char* dr = k.output<char>(1);
    weights_zr.run(k, d_zr, before, dr);
    weights_n.run(k, d_n, l.linear ? before : q, dr + static_cast<size_t>(2 * h * h) * l.element);
    bias_zr.run(k, d_zr, nullptr, k.out[2]);
    bias_n.run(k, d_n, nullptr, k.output<char>(2) + static_cast<size_t>(2 * h) * l.element);
  });
}

constexpr KernelRow kRows[] = {
    {Op::kLstm, "cuda.recurrent", takes_layer, plan_lstm},
    {Op::kLstmGrad, "cuda.recurrent", takes_layer, plan_lstm_grad},
    {Op::kGru, "cuda.recurrent", takes_layer, plan_gru},
    {Op::kGruGrad, "cuda.recurrent", takes_layer, plan_gru_grad},
};

}  // namespace

std::span<const KernelRow> recurrent_rows() { return kRows; }

}  // namespace trainrt::cuda
