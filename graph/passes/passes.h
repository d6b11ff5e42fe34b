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

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_PASSES_PASSES_H_
