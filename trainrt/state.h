// A module's state under the names, and in the layout, of the framework that it was exported from.
#ifndef TRAINRT_STATE_H_
#define TRAINRT_STATE_H_

#include <cstdint>

#include "trainrt/module.h"

namespace trainrt {

enum class KeyStyle : uint8_t {
  kFile,      // names and layouts of the ONNX file: Module::state_dict()
  kOriginal,  // those of the framework: transposed, unpacked, gates in its order
};

/// Parameters and buffers as the framework's own state_dict has them. kOriginal: copies, in the
/// module's working type; a weight with several names (a tied one) stands under each of them. What
/// PyTorch keeps for its own use and no graph reads is not there (num_batches_tracked, masks);
/// load_state_dict(…, strict=True) of PyTorch takes the dictionary without num_batches_tracked.
///
/// Throws Error(kUnsupported), naming every weight, when the file no longer holds what the names
/// stand for (a BatchNormalization folded into a convolution, a table that was looked up at export,
/// parameters without effect on the outputs), or when copies of one weight in the file have been
/// trained apart. kFile never throws.
///
/// Module::load_state_dict takes either style. A dictionary of the file's names, all of them and no
/// others, is taken in the file's style; in any other a key is looked up among the framework's
/// names first, and then:
/// - Several names of one weight: one is enough, more must have equal values. A copy that the
///   exporter made of a tied weight follows it when its own name is not there.
/// - Accepted and left out: integer scalars named num_batches_tracked; integers 0, 1, … n-1 in a
/// row
///   named position_ids; scalars named masked_bias; lower triangles of ones named bias or mask
///   (causal masks, [1, 1, n, n] or [n, n]); and what equals a constant that the file has.
/// - A key of a constant with another value is an error: nothing could take the value.
/// - A weight that the exporter computed from several others is an error, with `strict` or without.
StateDict state_dict(const Module& module, KeyStyle style);
/// With KeyStyle::kOriginal.
StateDict original_state_dict(const Module& module);

}  // namespace trainrt

#endif  // TRAINRT_STATE_H_
