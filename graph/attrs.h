// Attributes of nodes: one struct per shape of attributes, so that a misspelt one does not compile.
// All axes are non-negative, all sizes concrete. `for_each_field` in graph/attrs.cc lists the
// fields of each struct for the printer, the parser and comparison.
#ifndef TRAINRT_GRAPH_ATTRS_H_
#define TRAINRT_GRAPH_ATTRS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/types.h"

namespace trainrt {

struct NoAttrs {};

/// What an Input node stands for.
enum class InputRole : uint8_t {
  kData,            // an input of the model
  kTarget,          // what the loss compares with
  kParameter,       // trained
  kBuffer,          // running statistics and other state that is not trained
  kOptimizerState,  // moments
  kGradient,        // incoming gradient of an output, or a gradient store
  kHyper,           // float64 scalars that change between steps (learning rate, step number)
  kRng,             // int64[2]: seed, step
};

struct InputAttrs {
  std::string name;
  InputRole role = InputRole::kData;
  DType dtype = DType::kFloat32;
  Shape shape;
};

struct ConstantAttrs {
  Tensor value;
};

struct FillAttrs {
  DType dtype = DType::kFloat32;
  Shape shape;
  double value = 0;  // int64 values beyond 2^53 are Constants
};

struct ClipAttrs {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

struct CastAttrs {
  DType to = DType::kFloat32;
};

/// What becomes of a rounded value beyond the largest one.
enum class Overflow : uint8_t { kSaturate, kInfinity, kNan };

enum class Rounding : uint8_t { kNearestEven, kNearestUp, kUp, kDown };

/// A floating grid: 2^e (1 + i / 2^mantissa) for exponents e >= min_exponent, and below 2^e of the
/// smallest one the same spacing down to 0. kUp rounds away from 0, kDown towards 0; of kNearestUp
/// ties go away from 0. With min_exponent = mantissa it is the integers up to 2^mantissa.
struct RoundToAttrs {
  int64_t mantissa = 0, min_exponent = 0;
  double max = 1;
  Overflow overflow = Overflow::kSaturate;
  Rounding rounding = Rounding::kNearestEven;
};

struct ShapeAttrs {
  Shape shape;
};

struct PermAttrs {
  std::vector<int64_t> perm;  // output axis i is input axis perm[i]
};

/// Output element j along axis a is input element starts[a] + j * steps[a], for all axes of the
/// input. Steps are non-zero, every index is inside. `shape` is the larger tensor's (SliceGrad).
struct SliceAttrs {
  std::vector<int64_t> starts, steps, sizes;
  Shape shape;  // of the sliced tensor; needed by SliceGrad, empty in Slice
};

struct AxisAttrs {
  int64_t axis = 0;
};

struct SplitAttrs {
  int64_t axis = 0;
  std::vector<int64_t> sizes;
};

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };

/// Counts for every axis; negative counts crop.
struct PadAttrs {
  std::vector<int64_t> before, after;
  PadMode mode = PadMode::kConstant;
  double value = 0;
  Shape shape;  // of the unpadded tensor; needed by PadGrad, empty in Pad
};

struct TriluAttrs {
  bool upper = false;
  int64_t k = 0;
};

struct GatherGradAttrs {
  int64_t axis = 0;
  Shape shape;
};

struct GatherNDAttrs {
  int64_t batch_dims = 0;
};

enum class Reduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };

struct ScatterAttrs {
  int64_t axis = 0;  // ScatterElements only
  Reduction reduction = Reduction::kNone;
};

struct ReduceAttrs {
  std::vector<int64_t> axes;  // sorted, distinct; empty: nothing is reduced
  bool keepdims = false;
};

struct ArgAttrs {
  int64_t axis = 0;
  bool keepdims = false;
  bool last = false;  // ties: the last instead of the first index
};

struct CumAttrs {
  int64_t axis = 0;
  bool exclusive = false;
  bool reverse = false;
};

struct TopKAttrs {
  int64_t axis = 0;
  int64_t k = 1;
  bool largest = true;
};

/// The last two dims of an operand are transposed first.
struct MatMulAttrs {
  bool trans_a = false;
  bool trans_b = false;
  bool relu = false;  // of the product (and bias)
};

/// Spatial vectors, one entry per spatial dim. Pads may not be negative.
struct ConvAttrs {
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;
  int64_t group = 1;
  Shape shape;        // result of ConvDataGrad and ConvWeightGrad, empty in Conv
  bool relu = false;  // of Conv's result
};

/// `output` holds the spatial output dims, so ceil_mode needs no rule: the last window may reach
/// beyond pads_end; cells out there count for nothing. Dilations apply.
struct PoolAttrs {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end, output;
  bool count_include_pad = false;  // AveragePool: divide by cells inside the padded input
  bool column_major = false;       // MaxPoolIndices: storage_order 1
  Shape shape;                     // input shape, for AveragePoolGrad
};

/// out[…, o, …] = sum over t of weight[o*taps+t] * in[…, index[o*taps+t], …] along `axis`.
/// Indices are inside the input; unused taps have weight 0.
struct InterpolateAttrs {
  int64_t axis = 0;
  int64_t in_size = 0, out_size = 0, taps = 1;
  std::vector<int64_t> index;
  std::vector<double> weight;
};

/// kAverage and kMax take bilinear samples of each bin (kMax: the largest single weighted corner),
/// kCellMax whole cells.
enum class RoiMode : uint8_t { kAverage, kMax, kCellMax };

/// Each roi, scaled, is cut into height x width bins. `sampling_ratio` squared samples a bin; 0:
/// about one a cell. `half_pixel`: coordinates 0.5 less, and rois may be smaller than a cell.
struct RoiAttrs {
  RoiMode mode = RoiMode::kAverage;
  int64_t height = 1, width = 1, sampling_ratio = 0;
  double scale = 1;
  bool half_pixel = false;
};

/// What follows a normalisation in the same node.
enum class Activation : uint8_t { kNone, kRelu, kClip };

struct NormAttrs {
  int64_t axis = 1;  // LayerNorm, RmsNorm: first normalised axis
  double epsilon = 1e-5;
  Activation activation = Activation::kNone;  // of BatchNorm
  double lo = 0, hi = 0;                      // kClip's bounds; the gradient passes at them
};

/// BatchNorm with its activation, then Conv.
struct NormConvAttrs {
  std::vector<int64_t> strides, dilations, pads_begin, pads_end;
  int64_t group = 1;
  double epsilon = 1e-5;
  Activation activation = Activation::kNone;
  double lo = 0, hi = 0;

  NormConvAttrs() = default;
  NormConvAttrs(const NormAttrs& norm, const ConvAttrs& conv)
      : strides(conv.strides),
        dilations(conv.dilations),
        pads_begin(conv.pads_begin),
        pads_end(conv.pads_end),
        group(conv.group),
        epsilon(norm.epsilon),
        activation(norm.activation),
        lo(norm.lo),
        hi(norm.hi) {}
  NormAttrs norm() const { return {1, epsilon, activation, lo, hi}; }
  /// `shape`: of the result, for gradients
  ConvAttrs conv(Shape shape = {}) const {
    return {strides, dilations, pads_begin, pads_end, group, std::move(shape), false};
  }
};

/// tanh: the approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) of x Phi(x).
struct GeluAttrs {
  bool tanh = false;
};

/// Scores are `scale` q k^T plus the mask; `causal`: query i sees keys up to i + keys - queries.
/// `token_major`: operands and result are [batch, tokens, heads, size] instead of
/// [batch, heads, tokens, size]. `packed`: one operand [batch, tokens, 3, heads, size] holds q, k
/// and v, and so does the gradient. `sequence_first` (of either of these): tokens come before the
/// batch.
struct AttentionAttrs {
  double scale = 1;
  bool causal = false;
  bool token_major = false;
  bool packed = false;
  bool sequence_first = false;
};

struct RecurrentAttrs {
  bool reverse = false;
  /// Gru: the reset gate scales the recurrent product and its bias.
  bool linear_before_reset = false;
};

struct LayoutAttrs {
  Layout layout = Layout::kPlain;
};

/// Where the result lies; the operand is on the other side.
struct TransferAttrs {
  bool to_host = false;
};

/// One tile program over elements; see graph/fused.h for its text.
struct FusedAttrs {
  std::string program;
};

struct LossAttrs {
  int64_t class_axis = 1;
  int64_t ignore_index = -100;
  Shape shape;  // of the logits, for NllLossGrad
};

/// `stream` numbers the random nodes of a graph; a mask is a function of (seed, step, stream, i).
struct DropoutAttrs {
  double ratio = 0.5;  // share of elements set to 0; the others are divided by 1 - ratio
  int64_t stream = 0;
};

enum class RandomKind : uint8_t { kUniform, kNormal };

struct RandomAttrs {
  RandomKind kind = RandomKind::kUniform;
  DType dtype = DType::kFloat32;
  Shape shape;
  double a = 0, b = 1;  // uniform: low, high; normal: mean, deviation
  int64_t stream = 0;
};

enum class OptimizerKind : uint8_t { kSgd, kMomentum, kNesterov, kAdam, kAdamW };

/// PyTorch's formulas (torch.optim documentation).
struct OptimizerAttrs {
  OptimizerKind kind = OptimizerKind::kSgd;
  double weight_decay = 0;
  double momentum = 0.9;  // momentum, nesterov
  double dampening = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam, adamw
};

/// A function of graph/call.h. `outputs` lists the results' types: dtype, rank, dims of each.
struct CallAttrs {
  int64_t function = 0;
  Shape outputs;
};

using Attrs =
    std::variant<NoAttrs, InputAttrs, ConstantAttrs, FillAttrs, ClipAttrs, CastAttrs, RoundToAttrs,
                 ShapeAttrs, PermAttrs, SliceAttrs, AxisAttrs, SplitAttrs, PadAttrs, TriluAttrs,
                 GatherGradAttrs, GatherNDAttrs, ScatterAttrs, ReduceAttrs, ArgAttrs, CumAttrs,
                 TopKAttrs, MatMulAttrs, ConvAttrs, PoolAttrs, InterpolateAttrs, RoiAttrs,
                 NormAttrs, NormConvAttrs, GeluAttrs, AttentionAttrs, RecurrentAttrs, LayoutAttrs,
                 TransferAttrs, FusedAttrs, LossAttrs, DropoutAttrs, RandomAttrs, OptimizerAttrs,
                 CallAttrs>;

/// Names of the slots (moments) that an optimizer keeps per parameter, in the order of the inputs
/// of OptimizerUpdate. The hyper input is float64[2]: learning rate, number of this step (from 1).
std::vector<std::string> optimizer_slots(OptimizerKind kind);

/// Equality of all fields; constants compare by contents. NaN equals NaN.
bool equal(const Attrs& a, const Attrs& b);
size_t hash(const Attrs& attrs);
/// "axis=1 keepdims=true"; empty for NoAttrs. Constants above 16 elements print a digest only when
/// `full` is false.
std::string to_string(const Attrs& attrs, bool full = true);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_ATTRS_H_
