// Which values of a graph are kept as bfloat16.
#ifndef TRAINRT_RUNTIME_PRECISION_H_
#define TRAINRT_RUNTIME_PRECISION_H_

#include "graph/graph.h"
#include "runtime/partitioner.h"

namespace trainrt {

/// Mixed precision: products and convolutions read bfloat16 where a row runs them so, and sum in
/// float32. A float32 value that one of them makes or reads, or that is in nChw16c, is kept as
/// bfloat16 if its maker and all its readers have rows for that; otherwise Reorder nodes make the
/// copies that products read, one per value. Inputs, outputs, parameters, state, and gradients on
/// their way to an update stay float32, as does everything that ops without such rows touch
/// (losses, softmax, reductions, …). Without rows that know bfloat16 nothing changes. Layouts are
/// kept: call assign_layouts() before.
void assign_bfloat16(Graph& graph, const RowTable& rows);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_PRECISION_H_
