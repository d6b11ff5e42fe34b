#ifndef TRAINRT_KERNELS_CUDA_DEVICE_REDUCE_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_REDUCE_H_

#include "kernels/cuda/device/strided.h"

namespace trainrt::cuda {

/// A block has `lanes` threads for each of blockDim.x / lanes neighbouring results, lanes a power
/// of two. `along`: neighbouring threads read neighbours along the reduced axes, otherwise along
/// the kept ones. With more than one part each result is reduced in parts of `part` elements to
/// `partials` [parts, results], and reduce_finish joins those.
struct ReduceArguments {
  const void* in;
  void* out;
  void* partials;
  long long results, count;  // count: elements of each result
  long long parts, part;
  int lanes;
  bool along;
  bool last;  // ArgMax, ArgMin: of equal ones the last
  Walk<1> kept, reduced;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_REDUCE_H_
