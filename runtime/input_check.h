// Fits a caller's tensors to what a model or loss expects.
#ifndef TRAINRT_RUNTIME_INPUT_CHECK_H_
#define TRAINRT_RUNTIME_INPUT_CHECK_H_

#include <string>

#include "runtime/step_builder.h"
#include "trainrt/tensor.h"

namespace trainrt {

/// The tensor in the type that the graph takes for a declared one (floats: the working type).
/// `name` is the port's or that of an entry. Converts between float types, and between integer
/// types when every value fits. Throws Error(kInput), e.g. "input x: expected float32[n,4], given
/// int64[5,4]".
Tensor fit_input(const std::string& name, const Port& port, DType working, const Tensor& given);

/// The gradient of an output, of whose shape it must be; float types convert.
Tensor fit_gradient(const std::string& output, const TensorType& expected, const Tensor& given);

/// The target in the type that its loss takes. Integers and bools become floats when every value is
/// exact in the working type; floats never become class ids.
Tensor fit_target(const LossTerm& term, DType working, const Tensor& given);

/// Class ids lie in [0, classes) or are -100; throws Error(kInput) naming value, place and range.
void check_class_ids(const LossTerm& term, const Tensor& target);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_INPUT_CHECK_H_
