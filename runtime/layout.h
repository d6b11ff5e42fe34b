// Which values of a graph are stored in blocks of channels.
#ifndef TRAINRT_RUNTIME_LAYOUT_H_
#define TRAINRT_RUNTIME_LAYOUT_H_

#include "graph/graph.h"
#include "runtime/partitioner.h"

namespace trainrt {

/// Stores the activations of convolutional regions in nChw16c. Convolutions take it where a row
/// runs them so; what lies between them (normalisations, pools, elementwise ops, …) follows when
/// most of the bytes it reads are blocked already and a row takes it. Reorder nodes stand where a
/// value changes its layout, one per value and layout. Inputs, outputs, parameters and state stay
/// plain. Without rows that know layouts nothing changes.
void assign_layouts(Graph& graph, const RowTable& rows);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_LAYOUT_H_
