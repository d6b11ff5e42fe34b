// Weights that are one in the framework and two in the file. Private to the frontend.
#ifndef TRAINRT_FRONTEND_TIED_WEIGHTS_H_
#define TRAINRT_FRONTEND_TIED_WEIGHTS_H_

#include "frontend/imported.h"

namespace trainrt {

/// Looks for embeddings and output projections with the same values; makes each pair one parameter
/// (`tie`), or warns of it. Equal values alone say nothing: cloned layers have them as well.
void find_tied_weights(ImportedModel& model, bool tie);

/// A matrix turned round.
Tensor transposed(const Tensor& matrix);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_TIED_WEIGHTS_H_
