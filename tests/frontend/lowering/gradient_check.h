// Gradients of a node against central differences.
#ifndef TRAINRT_TESTS_FRONTEND_LOWERING_GRADIENT_CHECK_H_
#define TRAINRT_TESTS_FRONTEND_LOWERING_GRADIENT_CHECK_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {

/// Numbers of [lo, hi), the same for the same seed.
Tensor random_reals(Shape shape, uint64_t seed, double lo = -1, double hi = 1);

/// Makes the node for given contents of its float inputs.
using MakeNode = std::function<OneNode(std::span<const Tensor>)>;

/// For each float input of the node that `make` makes of `inputs`: <dy, J u> for a random direction
/// u, by central differences, against <J' dy, u>. The largest difference, relative to the length of
/// the gradient. An input that nothing flows to counts as gradient 0.
double gradient_error(const MakeNode& make, std::vector<Tensor> inputs);

}  // namespace trainrt

#endif  // TRAINRT_TESTS_FRONTEND_LOWERING_GRADIENT_CHECK_H_
