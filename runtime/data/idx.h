// The IDX files of MNIST and its relatives.
#ifndef TRAINRT_RUNTIME_DATA_IDX_H_
#define TRAINRT_RUNTIME_DATA_IDX_H_

#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/dataset.h"

namespace trainrt {

/// One IDX file in memory. `what` names it in errors (Error(kFile)).
Tensor parse_idx(std::string_view bytes, const std::string& what);

/// `images.idx[,labels.idx]`: bytes become float32 in [0, 1] (then mean and std), a channel axis is
/// added to [n,h,w]; labels become int64. Fields "data" and "target".
std::unique_ptr<Dataset> open_idx(const std::string& spec, const DataOptions& options);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_IDX_H_
