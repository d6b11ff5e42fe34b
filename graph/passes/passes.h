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

/// Puts a residual sum, ReLU or Clip that follows a BatchNorm into its node, where nobody else reads
/// what lies between. Before differentiation, so that the gradient is one node too.
std::unique_ptr<Pass> make_raise_batch_norm_pass();

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_PASSES_PASSES_H_
