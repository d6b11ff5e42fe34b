// The headers that generated device code stands behind, as text.
#ifndef TRAINRT_TESTS_CUDA_EMULATOR_SOURCES_H_
#define TRAINRT_TESTS_CUDA_EMULATOR_SOURCES_H_

namespace trainrt::testing {

extern const char kEmulatedCuda[];
extern const char kDeviceHeader[];

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_CUDA_EMULATOR_SOURCES_H_
