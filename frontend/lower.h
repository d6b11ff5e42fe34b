// How ONNX nodes become IR: one lowering function per op family, one row per op.
//
// To add an op: write a function `void lower_x(LowerContext& c)` beside its relatives in
// frontend/lower_<family>.cc and give it a row in that file's list.
#ifndef TRAINRT_FRONTEND_LOWER_H_
#define TRAINRT_FRONTEND_LOWER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "frontend/onnx_model.h"
#include "graph/builder.h"

namespace trainrt {

/// Thrown by a lowering to refuse its node; the driver adds the node's name and goes on with the
/// rest of the graph. Anything that throws Error(kInvalidModel) is taken as kind "invalid".
struct LowerError {
  std::string kind;  // invalid | no_lowering | dynamic
  std::string reason;
};

/// The tensors of a sequence; how many there are is known when a plan is built.
using Sequence = std::vector<Var>;
/// An optional that holds nothing. One that holds something is what it holds.
struct EmptyOptional {};
/// What a value of an ONNX graph is; an absent Var: nothing yet, or an absent input.
using NodeValue = std::variant<Var, Sequence, EmptyOptional>;
/// The tensor; absent for everything else.
inline Var tensor_of(const NodeValue& value) {
  const Var* v = std::get_if<Var>(&value);
  return v != nullptr ? *v : Var();
}
inline bool is_absent(const NodeValue& value) {
  return std::holds_alternative<Var>(value) && !std::get<Var>(value);
}

/// One ONNX node with its inputs as IR values. Inputs that other problems left undefined never
/// reach a lowering.
class LowerContext {
 public:
  virtual ~LowerContext() = default;

  Builder& b;
  const SpecializeOptions& options;
  const int64_t opset;   // version of the node's domain that the file imports
  const std::string op;  // op type
  std::string domain;    // "" for ai.onnx
  const DType working;   // = options.working

  // Inputs. Optional ones that are absent give an absent Var.
  virtual size_t input_count() const = 0;  // trailing absent ones not counted
  virtual Var in(size_t i) const = 0;      // absent when missing
  /// As in(); refuses the node when it is missing.
  Var need(size_t i) const;
  bool has(size_t i) const { return static_cast<bool>(in(i)); }

  /// Contents of an input that must be known when a plan is built (shapes, axes, pads, …). Refuses
  /// the node as "dynamic" when they depend on tensor contents; model inputs they depend on are
  /// noted, so that the caller can bind their values and specialize again.
  virtual Tensor constant(size_t i) const = 0;
  std::vector<int64_t> ints(size_t i) const;  // constant(i) as int64
  double number(size_t i) const;              // constant(i), one element
  /// As constant(), for any value; `what` says in the refusal what it is.
  virtual Tensor constant_of(Var value, const std::string& what) const = 0;
  /// Contents if they are known, without refusing.
  std::optional<Tensor> try_constant(size_t i) const { return b.constant_value(in(i)); }

  // Attributes. The variants without a default refuse the node when the attribute is missing.
  virtual bool has_attr(std::string_view name) const = 0;
  virtual int64_t attr_int(std::string_view name) const = 0;
  virtual double attr_float(std::string_view name) const = 0;
  virtual std::string attr_string(std::string_view name) const = 0;
  virtual std::vector<int64_t> attr_ints(std::string_view name) const = 0;
  virtual std::vector<double> attr_floats(std::string_view name) const = 0;
  virtual std::vector<std::string> attr_strings(std::string_view name) const = 0;
  /// Floats come in the working type.
  virtual Tensor attr_tensor(std::string_view name) const = 0;
  int64_t attr_int(std::string_view name, int64_t otherwise) const {
    return has_attr(name) ? attr_int(name) : otherwise;
  }
  double attr_float(std::string_view name, double otherwise) const {
    return has_attr(name) ? attr_float(name) : otherwise;
  }
  std::string attr_string(std::string_view name, std::string otherwise) const {
    return has_attr(name) ? attr_string(name) : otherwise;
  }
  std::vector<int64_t> attr_ints(std::string_view name, std::vector<int64_t> otherwise) const {
    return has_attr(name) ? attr_ints(name) : otherwise;
  }
  std::vector<double> attr_floats(std::string_view name, std::vector<double> otherwise) const {
    return has_attr(name) ? attr_floats(name) : otherwise;
  }
  /// A dtype attribute (`to`, `dtype`): floating types give the working type.
  DType attr_dtype(std::string_view name) const;

  /// ONNX's number of the element type of input i when it is narrower than any DType (float8, int4,
  /// …; the values are then kept in a wider one), else 0.
  virtual int64_t narrow_type(size_t) const { return 0; }
  virtual void set_narrow(size_t, int64_t) {}  // of an output

  // Outputs.
  virtual size_t output_count() const = 0;  // named ones, trailing unnamed not counted
  virtual bool wants(size_t i) const = 0;   // the file names output i and something reads it
  virtual void set(size_t i, Var value) = 0;
  void set(Var value) { set(0, value); }

  // Sequences and optionals.
  /// As in(), whatever the input is.
  virtual NodeValue value(size_t i) const { return in(i); }
  NodeValue need_value(size_t i) const;
  virtual void set_value(size_t i, NodeValue value) { set(i, tensor_of(value)); }
  Sequence sequence(size_t i) const;

  /// Axis in [-rank, rank) to [0, rank); refuses the node when it is outside.
  int64_t axis(int64_t a, int64_t rank) const;
  std::vector<int64_t> axes(std::vector<int64_t> list, int64_t rank) const;  // sorted, distinct

  // State.
  /// The key of the random ops: the graph's kRng input, made on first use.
  virtual Var rng() = 0;
  /// A number for each random node of the graph.
  virtual int64_t next_stream() = 0;
  /// Notes that input i is a running statistic with the given new value (train mode only): adds the
  /// Assign when the input is a stored buffer; otherwise does nothing.
  virtual void update_buffer(size_t i, Var value) = 0;

  // Control flow.
  /// Lowers a subgraph attribute with its inputs bound; names of outer graphs are visible.
  virtual std::vector<NodeValue> subgraph(std::string_view attr,
                                          std::span<const NodeValue> inputs) = 0;
  /// Of a subgraph whose inputs and outputs are tensors.
  std::vector<Var> tensor_subgraph(std::string_view attr, std::span<const Var> inputs);
  virtual size_t subgraph_input_count(std::string_view attr) const = 0;
  virtual size_t subgraph_output_count(std::string_view attr) const = 0;
  /// Says that a subgraph can never run with these input types, whatever the tensors hold.
  virtual void leave_out(std::string_view attr) = 0;

  [[noreturn]] void refuse(std::string kind, std::string reason) const {
    throw LowerError{std::move(kind), std::move(reason)};
  }
  [[noreturn]] void invalid(std::string reason) const { refuse("invalid", std::move(reason)); }

 protected:
  LowerContext(Builder& builder, const SpecializeOptions& opts, int64_t opset_version,
               std::string op_type)
      : b(builder),
        options(opts),
        opset(opset_version),
        op(std::move(op_type)),
        working(opts.working) {}
};

/// Inputs through which gradients flow, for finding parameters before any shape is known.
enum class GradInputs : uint8_t {
  kAll,
  kNone,
  kFirst,
  kFirstTwo,
  kFirstThree,
  kSecond,
  kAllButFirst
};

/// Whether gradients flow through input i.
bool flows_through(GradInputs inputs, size_t i);

struct LoweringRow {
  std::string_view domain;  // "" for ai.onnx
  std::string_view op;
  int64_t since;  // lowest opset this function understands; a later row of the same op wins
  void (*lower)(LowerContext&);
  GradInputs differentiable = GradInputs::kAll;
  std::string_view limits = {};  // forms that are refused, for docs/ops.md
};

/// Newest opset of the default domain whose changes the lowerings know.
inline constexpr int64_t kNewestOpset = 28;

/// The row for an op at an opset; null when there is none.
const LoweringRow* find_lowering(std::string_view domain, std::string_view op, int64_t opset);
/// The oldest opset with a row for an op; nothing when there is no row at all.
std::optional<int64_t> oldest_lowering(std::string_view domain, std::string_view op);

// One list per family, and all of them.
std::vector<std::span<const LoweringRow>> lowering_lists();
std::span<const LoweringRow>
elementwise_lowerings();                             // arithmetic, logic, activations, Cast, Where
std::span<const LoweringRow> shape_lowerings();      // Reshape family, Slice, Concat, Pad, …
std::span<const LoweringRow> indexing_lowerings();   // Gather and Scatter families, TopK, OneHot
std::span<const LoweringRow> reduction_lowerings();  // reductions, ArgMax, cumulative
std::span<const LoweringRow> linear_lowerings();     // MatMul, Gemm, Einsum, Det
std::span<const LoweringRow> conv_lowerings();       // Conv, ConvTranspose, pools, Resize
std::span<const LoweringRow> norm_lowerings();       // normalisations, Softmax, losses
std::span<const LoweringRow> random_lowerings();     // Dropout, Random*
std::span<const LoweringRow> recurrent_lowerings();  // LSTM, GRU, RNN
std::span<const LoweringRow> attention_lowerings();  // Attention, RotaryEmbedding
std::span<const LoweringRow> control_flow_lowerings();  // If, Loop, Scan
std::span<const LoweringRow> sequence_lowerings();      // Sequence*, SplitToSequence
std::span<const LoweringRow> signal_lowerings();   // DFT, STFT, windows, BitCast, TfIdfVectorizer
std::span<const LoweringRow> contrib_lowerings();  // com.microsoft
std::span<const LoweringRow> flex_attention_lowerings();  // ai.onnx.preview
std::span<const LoweringRow> legacy_lowerings();          // forms of opsets 1 to 6

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_LOWER_H_
