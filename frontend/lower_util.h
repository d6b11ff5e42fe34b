// Helpers that several lowering families share. Private to the frontend.
#ifndef TRAINRT_FRONTEND_LOWER_UTIL_H_
#define TRAINRT_FRONTEND_LOWER_UTIL_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "frontend/lower.h"

namespace trainrt::lowering {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// Elements that a lowering may write out as a constant.
inline constexpr int64_t kMaxConstant = int64_t{1} << 27;

inline size_t at(int64_t i) { return static_cast<size_t>(i); }

/// x itself: for ops that decide nothing.
void lower_identity(LowerContext& c);
/// LayerNormalization, and RMSNormalization with the factor as a second output: the same in both
/// domains.
void lower_layer_norm(LowerContext& c);
void lower_rms_norm(LowerContext& c);

template <Op kOp>
void lower_unary(LowerContext& c) {
  c.set(unary(kOp, c.need(0)));
}

template <Op kOp>
void lower_binary(LowerContext& c) {
  c.set(binary(kOp, c.need(0), c.need(1)));
}

/// A list that older opsets hold as an attribute and newer ones as an input; nothing when it is
/// absent.
std::optional<std::vector<int64_t>> ints_argument(const LowerContext& c, std::string_view attr,
                                                  size_t input);

/// 0, 1, …, n-1. Refuses the node when that is too much to write out.
Var iota(LowerContext& c, int64_t n, DType dtype = DType::kInt64);

/// Product of dims [begin, end) of a shape.
int64_t product(std::span<const int64_t> shape, int64_t begin, int64_t end);

/// 0, 1, …, rank-1.
std::vector<int64_t> identity_perm(int64_t rank);

/// Shapes v, of rank 1, so that it broadcasts along axis `axis` of a tensor of rank `rank`.
Var along(Var v, int64_t axis, int64_t rank);

/// Sum, over axes, of matrix products of any element type, NumPy's rules for rank >= 2.
Var matmul_any(Var a, Var b);

/// As matmul_any, also of vectors: one on the left is a row, on the right a column, and its axis is
/// dropped from the result.
Var matmul_numpy(LowerContext& c, Var a, Var b);

/// x / sqrt(mean(x^2 over axes >= axis) + epsilon). Sets *inverse to the factor when asked.
Var rms_normalize(Var x, int64_t axis, double epsilon, Var* inverse = nullptr);

/// What LayerNormalization and its relatives compute.
struct LayerNormResult {
  Var y, mean, inverse;
};
/// y = (x - mean) / sqrt(variance + epsilon) * scale + bias over axes >= axis. Scale and bias may
/// be absent, or of any shape that broadcasts to x. `moments`: mean and inverse are needed as well.
LayerNormResult layer_normalize(Var x, Var scale, Var bias, int64_t axis, double epsilon,
                                bool moments);

/// x Phi(x), with erf or by the tanh formula.
Var gelu(Var x, bool tanh_form);

// Parts of the families that have files of their own.
std::span<const LoweringRow> activation_lowerings();        // of elementwise_lowerings()
std::span<const LoweringRow> rearrange_lowerings();         // of shape_lowerings()
std::span<const LoweringRow> scatter_lowerings();           // of indexing_lowerings()
std::span<const LoweringRow> grid_lowerings();              // of indexing_lowerings()
std::span<const LoweringRow> einsum_lowerings();            // of linear_lowerings()
std::span<const LoweringRow> linear_attention_lowerings();  // of attention_lowerings()
std::span<const LoweringRow> loss_lowerings();              // of norm_lowerings()
std::span<const LoweringRow> quantize_lowerings();          // of norm_lowerings()
std::span<const LoweringRow> bit_cast_lowerings();          // of signal_lowerings()
std::span<const LoweringRow> tf_idf_lowerings();            // of signal_lowerings()

/// The rows of several lists, one after the other.
std::vector<LoweringRow> joined(std::initializer_list<std::span<const LoweringRow>> lists);

}  // namespace trainrt::lowering

#endif  // TRAINRT_FRONTEND_LOWER_UTIL_H_
