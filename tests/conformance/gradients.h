// Gradients of a conformance case, by central differences, and with its inputs used twice.
#ifndef TRAINRT_TESTS_CONFORMANCE_GRADIENTS_H_
#define TRAINRT_TESTS_CONFORMANCE_GRADIENTS_H_

#include <string>

#include "onnx/onnx_pb.h"
#include "trainrt/tensor.h"

namespace trainrt::conformance {

/// What is wrong with the gradients of sum(dy * output) at these inputs, dy being random; empty
/// when nothing is:
/// - in float64, against central differences along a random direction for each float input. Inputs
///   that lie on a kink or a jump, where the differences to both sides do not agree, are left out;
/// - the same with all float inputs of one shape being one value;
/// - in float64 and on the default kernels, with every float input read by a second node as well,
///   whose gradient must be added.
std::string check_gradients(const onnx::ModelProto& model, const std::string& folder,
                            const TensorMap& inputs);

}  // namespace trainrt::conformance

#endif  // TRAINRT_TESTS_CONFORMANCE_GRADIENTS_H_
