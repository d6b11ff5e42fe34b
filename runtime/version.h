// The version that the command line and the C API tell.
#ifndef TRAINRT_RUNTIME_VERSION_H_
#define TRAINRT_RUNTIME_VERSION_H_

namespace trainrt {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_VERSION_H_
