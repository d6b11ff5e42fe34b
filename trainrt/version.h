// The version of trainrt. This file is its only place: the soname, the package files and
// `trainrt --version` are made from it.
#ifndef TRAINRT_VERSION_H_
#define TRAINRT_VERSION_H_

/// Of these headers. The soname holds the major number.
#define TRAINRT_VERSION_MAJOR 0
#define TRAINRT_VERSION_MINOR 1
#define TRAINRT_VERSION_PATCH 0

#ifdef __cplusplus
namespace trainrt {

/// Of the library that the program runs with: "0.1.0".
const char* version();

}  // namespace trainrt
#endif

#endif  // TRAINRT_VERSION_H_
