// The general passes.
#ifndef TRAINRT_GRAPH_PASSES_PASSES_H_
#define TRAINRT_GRAPH_PASSES_PASSES_H_

#include <memory>

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
/// Replaces groups of nodes that exporters write for GELU, SiLU, norms, softmax and attention by the
/// op, where nothing else reads what lies between. Never changes values beyond rounding.
std::unique_ptr<Pass> make_raise_pass(Evaluator evaluator);

/// Puts a residual sum, ReLU or Clip that follows a BatchNorm into its node, where nobody else reads
/// what lies between. Before differentiation, so that the gradient is one node too.
std::unique_ptr<Pass> make_raise_batch_norm_pass();

/// Bias additions and ReLUs go into the MatMul or Conv before them, where nobody else reads what
/// lies between. For graphs that are differentiated already.
std::unique_ptr<Pass> make_epilogue_pass();

struct RecomputeReport {
  int32_t values = 0;  // made again
  int64_t bytes = 0;   // no longer kept for the backward section
};
/// The backward section makes cheap elementwise values of the forward section again where fewer
/// bytes are kept for it then. For graphs that are differentiated already.
std::unique_ptr<Pass> make_recompute_pass(RecomputeReport* report);

/// Whether the backend runs a Fused node with this program and these types.
using FusedSupport = std::function<bool(const std::string& program, std::span<const TensorType> in,
                                        std::span<const TensorType> out)>;
/// Elementwise nodes that are connected through values of one iteration space, and sums of those
/// values, become one Fused node. For graphs that are differentiated already.
std::unique_ptr<Pass> make_fuse_pass(FusedSupport supports);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_PASSES_PASSES_H_
