// How dlpack.cc reaches GPUs, of which it knows nothing else.
#ifndef TRAINRT_DETAIL_DLPACK_DEVICE_H_
#define TRAINRT_DETAIL_DLPACK_DEVICE_H_

#include <cstddef>

namespace trainrt {

/// Copies bytes of a GPU to the host; set by the part of the program that can use GPUs. Throws
/// Error(kUnsupported) when there is no such GPU.
using CopyFromGpu = void (*)(int index, void* to, const void* from, size_t bytes);
CopyFromGpu& copy_from_gpu();

}  // namespace trainrt

#endif  // TRAINRT_DETAIL_DLPACK_DEVICE_H_
