// Sizes as users write them.
#ifndef TRAINRT_RUNTIME_BYTE_SIZE_H_
#define TRAINRT_RUNTIME_BYTE_SIZE_H_

#include <cstddef>
#include <string>

namespace trainrt {

/// "2GiB", "500 MB", "4096" to bytes (KiB = 1024, KB = 1000); throws Error(kUsage) naming `option`.
size_t parse_bytes(const std::string& text, const std::string& option);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_BYTE_SIZE_H_
