// LSTM, GRU and RNN: one product of all inputs with the input weights, then, for the usual cells,
// one node a direction; the others are unrolled to core ops, with one recurrent product a step.
// Formulas and gate orders are those of ONNX's operator page.
#include <algorithm>
#include <cctype>
#include <functional>

#include "frontend/lower.h"

namespace trainrt {
namespace {

constexpr int64_t kMaxSteps = 100'000;

using Activation = std::function<Var(Var)>;

std::string lower_case(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char ch) { return std::tolower(ch); });
  return name;
}

/// Takes alpha and beta from the lists, in order, only for functions that have them.
class ActivationList {
 public:
  explicit ActivationList(LowerContext& c)
      : c_(c),
        alphas_(c.attr_floats("activation_alpha", {})),
        betas_(c.attr_floats("activation_beta", {})) {}

  Activation next(std::string name) {
    name = lower_case(std::move(name));
    if (name == "relu") return [](Var x) { return relu(x); };
    if (name == "tanh") return [](Var x) { return tanh(x); };
    if (name == "sigmoid") return [](Var x) { return sigmoid(x); };
    if (name == "softsign") return [](Var x) { return x / (1.0 + abs(x)); };
    if (name == "softplus") return [](Var x) { return unary(Op::kSoftplus, x); };
    if (name == "affine") {
      const double a = alpha(1), b = beta(0);
      return [a, b](Var x) { return x * a + b; };
    }
    if (name == "leakyrelu") {
      const double a = alpha(0.01);
      return [a](Var x) { return where(less(x, 0.0), x * a, x); };
    }
    if (name == "thresholdedrelu") {
      const double a = alpha(1);
      return [a](Var x) { return where(greater(x, a), x, 0.0); };
    }
    if (name == "scaledtanh") {
      const double a = alpha(1), b = beta(1);
      return [a, b](Var x) { return tanh(x * b) * a; };
    }
    if (name == "hardsigmoid") {
      const double a = alpha(0.2), b = beta(0.5);
      return [a, b](Var x) {
        const Var y = x * a + b;
        // The gradient on the bounds is 0, so Clip, whose interval is closed, does not do.
        return where(greater(y, 0.0), where(less(y, 1.0), y, 1.0), 0.0);
      };
    }
    if (name == "elu") {
      const double a = alpha(1);
      // exp of the negative part only: no overflow on the branch that is not taken.
      return [a](Var x) {
        return where(less(x, 0.0), (exp(minimum(x, full_like(x, 0))) - 1.0) * a, x);
      };
    }
    c_.refuse("no_lowering", "unknown activation '" + name + "'");
  }

 private:
  double take(const std::vector<double>& list, size_t& at, double otherwise) {
    return at < list.size() ? list[at++] : otherwise;
  }
  double alpha(double otherwise) { return take(alphas_, next_alpha_, otherwise); }
  double beta(double otherwise) { return take(betas_, next_beta_, otherwise); }

  LowerContext& c_;
  std::vector<double> alphas_, betas_;
  size_t next_alpha_ = 0, next_beta_ = 0;
};

/// One direction of a node: weights without their direction axis, biases and state [batch, hidden].
struct Direction {
  bool reverse = false;
  Var w, r;            // [gates * hidden, input], [gates * hidden, hidden]
  Var bias_w, bias_r;  // [gates * hidden], absent without B
  Var peephole;        // [3 * hidden], absent without P
  std::vector<Var> state;
  std::vector<Activation> f;
  bool usual = true;  // the op's own activations
};

/// A step: input part of the gates [batch, gates * hidden] and the state give the new state; the
/// first entry is the step's output.
using Step = std::function<std::vector<Var>(const Direction&, Var, const std::vector<Var>&)>;

/// All steps at once: input parts [steps, batch, gates * hidden] and the initial state give the
/// states after each step, [steps, batch, hidden].
using Layer = std::function<std::vector<Var>(const Direction&, Var, const std::vector<Var>&)>;

class Recurrent {
 public:
  Recurrent(LowerContext& c, int64_t gates, size_t states, std::vector<std::string> defaults)
      : c_(c), gates_(gates), states_(states), layout_(c.attr_int("layout", 0)) {
    x_ = c.need(0);
    if (x_.rank() != 3) c.invalid("X has rank 3, given " + to_string(x_.type()));
    if (layout_ != 0) x_ = transpose(x_, {1, 0, 2});
    steps_ = x_.dim(0);
    batch_ = x_.dim(1);
    const Var w = c.need(1), r = c.need(2);
    if (w.rank() != 3 || r.rank() != 3) {
      c.invalid("W and R have rank 3, given " + to_string(w.type()) + " and " +
                to_string(r.type()));
    }
    hidden_ = r.dim(2);
    check_attributes(w);
    const int64_t d = count_, rows = gates * hidden_;
    check("W", w, {d, rows, x_.dim(2)});
    check("R", r, {d, rows, hidden_});
    if (c.has(3)) check("B", c.in(3), {d, 2 * rows});
    if (c.has(7)) check("P", c.in(7), {d, 3 * hidden_});
    if (c.has(4)) check("sequence_lens", c.in(4), {batch_});
    for (size_t s = 0; s < states; ++s) {
      if (!c.has(5 + s)) continue;
      check(s == 0 ? "initial_h" : "initial_c", c.in(5 + s),
            layout_ != 0 ? Shape{batch_, d, hidden_} : Shape{d, batch_, hidden_});
    }
    find_lengths();
    make_directions(std::move(defaults));
  }

  int64_t hidden() const { return hidden_; }

  /// The input part takes W's bias, and R's as well when `merge_bias`. `layer` takes cells with the
  /// usual activations, neither clipped nor with peepholes, of full sequences; null: none.
  void run(const Step& step, bool merge_bias, const Layer& layer = nullptr) {
    std::vector<Var> ys;
    std::vector<std::vector<Var>> finals(states_);
    for (const Direction& d : directions_) {
      std::vector<Var> state = d.state;
      ys.push_back(run_direction(d, step, merge_bias, layer, state));
      for (size_t s = 0; s < states_; ++s) {
        finals[s].push_back(reshape(state[s], {1, batch_, hidden_}));
      }
    }
    if (c_.wants(0)) {
      const Var y = joined(ys, 1);  // [steps, directions, batch, hidden]
      c_.set(0, layout_ != 0 ? transpose(y, {2, 0, 1, 3}) : y);
    }
    for (size_t s = 0; s < states_; ++s) {
      if (!c_.wants(1 + s)) continue;
      const Var h = joined(finals[s], 0);
      c_.set(1 + s, layout_ != 0 ? transpose(h, {1, 0, 2}) : h);
    }
  }

  /// Bounds the input of a gate's activation, if the node says so.
  Var clipped(Var v) const { return clip_ > 0 ? clip(v, -clip_, clip_) : v; }
  std::vector<Var> gates(Var all, int64_t n) const {
    return n == 1
               ? std::vector<Var>{all}
               : split(all, all.rank() - 1, std::vector<int64_t>(static_cast<size_t>(n), hidden_));
  }

 private:
  static Var joined(const std::vector<Var>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : concat(parts, axis);
  }

  void check(const char* name, Var v, const Shape& expected) const {
    if (v.shape() == expected) return;
    c_.invalid(std::string(name) + " has shape " + to_string(v.shape()) + ", expected " +
               to_string(expected));
  }

  void check_attributes(Var w) {
    const std::string direction = c_.attr_string("direction", "forward");
    if (direction == "bidirectional") {
      reverse_ = {false, true};
    } else if (direction == "forward" || direction == "reverse") {
      reverse_ = {direction == "reverse"};
    } else {
      c_.invalid("unknown direction '" + direction + "'");
    }
    count_ = static_cast<int64_t>(reverse_.size());
    if (w.dim(0) != count_) {
      c_.invalid("W has " + std::to_string(w.dim(0)) + " directions, the attribute says " +
                 direction);
    }
    const int64_t hidden = c_.attr_int("hidden_size", hidden_);
    if (hidden != hidden_) {
      c_.invalid("hidden_size is " + std::to_string(hidden) + ", R says " +
                 std::to_string(hidden_));
    }
    clip_ = c_.attr_float("clip", 0.0);
    if (layout_ != 0 && layout_ != 1) c_.invalid("layout is 0 or 1");
  }

  /// Sequences that all have the full length need no masks.
  void find_lengths() {
    if (!c_.has(4)) return;
    if (const std::optional<Tensor> known = c_.try_constant(4)) {
      const std::vector<int64_t> lengths = known->to_ints();
      if (std::all_of(lengths.begin(), lengths.end(), [&](int64_t n) { return n >= steps_; })) {
        return;
      }
    }
    lengths_ = reshape(c_.in(4), {batch_, 1});
  }

  Var part(size_t input, int64_t d) const {
    const Var v = c_.in(input);
    if (!v) return Var();
    Shape shape = v.shape();
    shape.erase(shape.begin());
    return reshape(count_ == 1 ? v : slice(v, 0, d, 1), shape);
  }

  void make_directions(std::vector<std::string> defaults) {
    std::vector<std::string> names =
        c_.has_attr("activations") ? c_.attr_strings("activations") : std::vector<std::string>{};
    const size_t each = defaults.size();
    if (names.empty()) {
      for (int64_t d = 0; d < count_; ++d) {
        names.insert(names.end(), defaults.begin(), defaults.end());
      }
    }
    if (names.size() != each * static_cast<size_t>(count_)) {
      c_.invalid("activations has " + std::to_string(names.size()) + " entries, expected " +
                 std::to_string(each * static_cast<size_t>(count_)));
    }
    ActivationList list(c_);
    for (int64_t d = 0; d < count_; ++d) {
      Direction dir;
      dir.reverse = reverse_[static_cast<size_t>(d)];
      dir.w = part(1, d);
      dir.r = part(2, d);
      if (const Var b = part(3, d)) {
        dir.bias_w = slice(b, 0, 0, gates_ * hidden_);
        dir.bias_r = slice(b, 0, gates_ * hidden_, gates_ * hidden_);
      }
      dir.peephole = part(7, d);
      for (size_t s = 0; s < states_; ++s) dir.state.push_back(initial(5 + s, d));
      for (size_t k = 0; k < each; ++k) {
        const std::string& name = names[static_cast<size_t>(d) * each + k];
        dir.f.push_back(list.next(name));
        dir.usual = dir.usual && lower_case(name) == lower_case(defaults[k]);
      }
      directions_.push_back(std::move(dir));
    }
  }

  Var initial(size_t input, int64_t d) const {
    Var h = c_.in(input);
    if (!h) return c_.b.fill(x_.dtype(), 0, {batch_, hidden_});
    const int64_t axis = layout_ != 0 ? 1 : 0;
    return reshape(count_ == 1 ? h : slice(h, axis, d, 1), {batch_, hidden_});
  }

  /// Outputs of all steps, [steps, 1, batch, hidden]; `state` becomes the final one. Going
  /// backwards over padded sequences, the state stays the initial one until a sequence's last
  /// element.
  Var run_direction(const Direction& d, const Step& step, bool merge_bias, const Layer& layer,
                    std::vector<Var>& state) const {
    if (steps_ == 0) return c_.b.fill(x_.dtype(), 0, {0, 1, batch_, hidden_});
    const int64_t width = gates_ * hidden_;
    Var all = matmul(reshape(x_, {steps_ * batch_, x_.dim(2)}), d.w, {.trans_b = true});
    if (d.bias_w) all = all + (merge_bias ? d.bias_w + d.bias_r : d.bias_w);
    if (layer && d.usual && clip_ <= 0 && !lengths_ && !d.peephole) {
      const std::vector<Var> all_states = layer(d, reshape(all, {steps_, batch_, width}), state);
      for (size_t s = 0; s < states_; ++s) {
        state[s] =
            reshape(slice(all_states[s], 0, d.reverse ? 0 : steps_ - 1, 1), {batch_, hidden_});
      }
      return reshape(all_states[0], {steps_, 1, batch_, hidden_});
    }
    if (steps_ > kMaxSteps) {
      c_.refuse("memory", std::to_string(steps_) + " steps are too many to unroll");
    }
    const std::vector<Var> inputs =
        steps_ == 1 ? std::vector<Var>{all}
                    : split(all, 0, std::vector<int64_t>(static_cast<size_t>(steps_), batch_));

    std::vector<Var> outputs(static_cast<size_t>(steps_));
    for (int64_t i = 0; i < steps_; ++i) {
      const int64_t t = d.reverse ? steps_ - 1 - i : i;
      std::vector<Var> next =
          step(d, reshape(inputs[static_cast<size_t>(t)], {batch_, width}), state);
      Var y = next[0];
      if (lengths_) {
        const Var valid = greater(lengths_, static_cast<double>(t));
        y = where(valid, y, 0.0);
        for (size_t s = 0; s < states_; ++s) next[s] = where(valid, next[s], state[s]);
      }
      outputs[static_cast<size_t>(t)] = y;
      state = std::move(next);
    }
    return reshape(joined(outputs, 0), {steps_, 1, batch_, hidden_});
  }

  LowerContext& c_;
  int64_t gates_;
  size_t states_;
  int64_t layout_, steps_ = 0, batch_ = 0, hidden_ = 0, count_ = 1;
  double clip_ = 0;
  std::vector<bool> reverse_;
  Var x_, lengths_;
  std::vector<Direction> directions_;
};

// i = f(x Wi' + h Ri' + Pi c), f likewise (or 1 - i), C = f c + i g(…), o = f(… + Po C), H = o
// h(C).
void lower_lstm(LowerContext& c) {
  Recurrent rnn(c, 4, 2, {"Sigmoid", "Tanh", "Tanh"});
  const bool coupled = c.attr_int("input_forget", 0) != 0;
  const int64_t n = rnn.hidden();
  const Layer layer = [&](const Direction& d, Var x, const std::vector<Var>& state) {
    const std::vector<Var> operands = {x, d.r, state[0], state[1]};
    return c.b.add_all(Op::kLstm, operands, RecurrentAttrs{.reverse = d.reverse});
  };
  rnn.run(
      [&](const Direction& d, Var x, const std::vector<Var>& state) -> std::vector<Var> {
        const Var h = state[0], cell = state[1];
        std::vector<Var> g = rnn.gates(x + matmul(h, d.r, {.trans_b = true}), 4);  // i, o, f, c
        if (d.peephole) {
          g[0] = g[0] + slice(d.peephole, 0, 0, n) * cell;
          g[2] = g[2] + slice(d.peephole, 0, 2 * n, n) * cell;
        }
        const Var input = d.f[0](rnn.clipped(g[0]));
        const Var forget = coupled ? 1.0 - input : d.f[0](rnn.clipped(g[2]));
        const Var next = forget * cell + input * d.f[1](rnn.clipped(g[3]));
        if (d.peephole) g[1] = g[1] + slice(d.peephole, 0, n, n) * next;
        // The bound is for gates; onnxruntime leaves the cell's activation out, and so do we.
        return {d.f[0](rnn.clipped(g[1])) * d.f[2](next), next};
      },
      true, coupled ? Layer() : layer);
}

// z = f(x Wz' + h Rz'), r likewise; n = g(x Wh' + (r h) Rh') or, linear_before_reset, with
// r (h Rh' + bias); H = (1 - z) n + z h.
void lower_gru(LowerContext& c) {
  Recurrent rnn(c, 3, 1, {"Sigmoid", "Tanh"});
  const bool linear_first = c.attr_int("linear_before_reset", 0) != 0;
  const int64_t n = rnn.hidden();
  const Layer layer = [&](const Direction& d, Var x, const std::vector<Var>& state) {
    const Var bias = linear_first && d.bias_r ? d.bias_r : c.b.fill(x.dtype(), 0, {3 * n});
    const std::vector<Var> operands = {x, d.r, bias, state[0]};
    return c.b.add_all(Op::kGru, operands, RecurrentAttrs{d.reverse, linear_first});
  };
  rnn.run(
      [&](const Direction& d, Var x, const std::vector<Var>& state) -> std::vector<Var> {
        const Var h = state[0];
        const std::vector<Var> in = rnn.gates(x, 3);  // z, r, h
        Var z, r, candidate;
        if (linear_first) {
          Var recurrent = matmul(h, d.r, {.trans_b = true});
          if (d.bias_r) recurrent = recurrent + d.bias_r;
          const std::vector<Var> rec = rnn.gates(recurrent, 3);
          z = d.f[0](rnn.clipped(in[0] + rec[0]));
          r = d.f[0](rnn.clipped(in[1] + rec[1]));
          candidate = in[2] + r * rec[2];
        } else {
          const std::vector<Var> rec =
              rnn.gates(matmul(h, slice(d.r, 0, 0, 2 * n), {.trans_b = true}), 2);
          z = d.f[0](rnn.clipped(in[0] + rec[0]));
          r = d.f[0](rnn.clipped(in[1] + rec[1]));
          candidate = in[2] + matmul(r * h, slice(d.r, 0, 2 * n, n), {.trans_b = true});
        }
        const Var fresh = d.f[1](rnn.clipped(candidate));
        return {(1.0 - z) * fresh + z * h};
      },
      !linear_first, layer);
}

// H = f(x W' + h R').
void lower_rnn(LowerContext& c) {
  Recurrent rnn(c, 1, 1, {"Tanh"});
  rnn.run(
      [&](const Direction& d, Var x, const std::vector<Var>& state) -> std::vector<Var> {
        return {d.f[0](rnn.clipped(x + matmul(state[0], d.r, {.trans_b = true})))};
      },
      true);
}

constexpr LoweringRow kRows[] = {
    {"", "LSTM", 7, lower_lstm},
    {"", "GRU", 7, lower_gru},
    {"", "RNN", 7, lower_rnn},
};

}  // namespace

std::span<const LoweringRow> recurrent_lowerings() { return kRows; }

}  // namespace trainrt
