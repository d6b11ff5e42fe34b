// The general passes.
#ifndef TRAINRT_GRAPH_PASSES_PASSES_H_
#define TRAINRT_GRAPH_PASSES_PASSES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "graph/passes/pass.h"

namespace trainrt {

/// Removes nodes that no output and no state update needs. Input nodes stay.
std::unique_ptr<Pass> make_dead_code_pass();
/// Merges equal pure nodes (same op, inputs, attributes), within a section or from an earlier one.
std::unique_ptr<Pass> make_cse_pass();
/// Evaluates nodes whose inputs are all constant.
std::unique_ptr<Pass> make_fold_pass(Evaluator evaluator);
/// Algebraic identities: x+0, x*1, x/1, double transposes and reshapes, identity slices, casts to
/// the same type, transposes into MatMul's flags, … Never changes a result's value beyond -0 / +0.
std::unique_ptr<Pass> make_simplify_pass(Evaluator evaluator);
/// Replaces groups of nodes that exporters write for GELU, SiLU, norms, softmax and attention by
/// the op, where nothing else reads what lies between. Never changes values beyond rounding.
std::unique_ptr<Pass> make_raise_pass(Evaluator evaluator);

/// Puts a residual sum, ReLU or Clip that follows a BatchNorm into its node, where nobody else
/// reads what lies between. Before differentiation, so that the gradient is one node too.
std::unique_ptr<Pass> make_raise_batch_norm_pass();

/// Gradients of ReLUs before a max-pool, and sums over images (gradients of biases), read the
/// pooled gradient instead of the one that the pool spreads over the image. Changes the sums'
/// rounding only. For graphs that are differentiated already.
std::unique_ptr<Pass> make_pool_grad_pass();

/// Bias additions and ReLUs go into the MatMul or Conv before them, where nobody else reads what
/// lies between. For graphs that are differentiated already.
std::unique_ptr<Pass> make_epilogue_pass();

struct RecomputeOptions {
  /// What running a node again costs, in bytes moved or their equivalent; negative: it must not.
  /// Views and state updates are not asked for.
  std::function<int64_t(const Graph&, const Node&)> cost;
  /// Bytes that must no longer be kept for each unit of cost.
  double weight = 0;
  /// Longest chain that is made again: its values live on until their readers, so long ones gain
  /// nothing.
  int32_t max_depth = 8;
  /// The forward section is cut into parts that make about so many bytes; what crosses their
  /// borders is not made again. 0: one part.
  int64_t segment_bytes = 0;
};
struct RecomputeReport {
  int32_t values = 0;  // made again
  int64_t bytes = 0;   // no longer kept for the backward section
  int64_t cost = 0;    // of the nodes that run again
};
/// The backward section makes values of the forward section again where that is worth the bytes
/// which are no longer kept for it. Nodes that run again give the same bits: random ones are
/// functions of their key, and state that changes in between is not read again. For graphs that are
/// differentiated already.
std::unique_ptr<Pass> make_recompute_pass(RecomputeOptions options, RecomputeReport* report);

/// Whether the backend runs a Fused node with this program and these types.
using FusedSupport = std::function<bool(const std::string& program, std::span<const TensorType> in,
                                        std::span<const TensorType> out)>;
/// Elementwise nodes that are connected through values of one iteration space, and sums of those
/// values, become one Fused node. For graphs that are differentiated already.
std::unique_ptr<Pass> make_fuse_pass(FusedSupport supports);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_PASSES_PASSES_H_
