// Runs a case of ONNX's backend tests through trainrt.
#ifndef TRAINRT_TESTS_CONFORMANCE_RUN_CASE_H_
#define TRAINRT_TESTS_CONFORMANCE_RUN_CASE_H_

#include <string>

#include "tests/conformance/case.h"

namespace trainrt::conformance {

/// What is wrong with trainrt's outputs; empty when they are right on the reference kernels in
/// float64 and float32 and on the default kernels.
std::string run_case(const Case& c, const onnx::ModelProto& model);

}  // namespace trainrt::conformance

#endif  // TRAINRT_TESTS_CONFORMANCE_RUN_CASE_H_
