// Generated sources to machine code, with a cache on disk. Needs no GPU.
#ifndef TRAINRT_KERNELS_CUDA_BACKEND_NVRTC_H_
#define TRAINRT_KERNELS_CUDA_BACKEND_NVRTC_H_

#include <string>

namespace trainrt::cuda {

/// A cubin for "sm_90", or PTX for "compute_90", of a source behind device/device.h. Throws
/// Error(kInternal) with the compiler's log.
std::string compile_source(const std::string& source, const std::string& architecture);

/// The same from the cache, or put there. `folder` empty: no cache. Entries hold their source, are
/// checked, and made again when they are damaged; a folder that cannot be written to is no error.
std::string cached_source(const std::string& source, const std::string& architecture,
                          const std::string& folder);

/// $TRAINRT_CACHE_DIR, $XDG_CACHE_HOME/trainrt, ~/.cache/trainrt; empty when there is no home, or
/// TRAINRT_CACHE_DIR is set and empty.
std::string cache_folder();

/// What this NVRTC can make for a device of capability major.minor: its machine code, or PTX of the
/// newest architecture that it knows.
std::string architecture_for(int major, int minor);

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_BACKEND_NVRTC_H_
