// What trainrt does not set out to compute, told from the model alone.
#ifndef TRAINRT_TESTS_CONFORMANCE_SCOPE_H_
#define TRAINRT_TESTS_CONFORMANCE_SCOPE_H_

#include <string>

#include "onnx/onnx_pb.h"

namespace trainrt::conformance {

/// Why the model is out of scope ("string tensors"); empty when it is not.
std::string out_of_scope(const onnx::ModelProto& model);

/// The model draws random numbers: another generator gives other outputs of the same type.
bool is_random(const onnx::ModelProto& model);

}  // namespace trainrt::conformance

#endif  // TRAINRT_TESTS_CONFORMANCE_SCOPE_H_
