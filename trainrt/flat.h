// All parameters of a module, or all their gradients, as one row of numbers.
#ifndef TRAINRT_FLAT_H_
#define TRAINRT_FLAT_H_

#include <cstdint>
#include <span>

#include "trainrt/module.h"

namespace trainrt {

/// Elements of all parameters together, frozen ones included.
int64_t flat_size(const Module& module);

/// The values of the parameters one after the other, in the order of Module::parameters(), each
/// row-major in the file's layout. Numbers convert between float32, float64 and the parameter's
/// type. The span must hold exactly flat_size() numbers, else Error(kInput); nothing has changed
/// then. Buffers are no part of it.
void get_flat(const Module& module, std::span<float> values);
void get_flat(const Module& module, std::span<double> values);
void set_flat(Module& module, std::span<const float> values);
void set_flat(Module& module, std::span<const double> values);

/// The gradients in the same order; a parameter without one counts as zeros.
void get_flat_grad(const Module& module, std::span<float> values);
void get_flat_grad(const Module& module, std::span<double> values);
/// Replaces the gradients of all parameters with requires_grad(); the numbers of frozen ones are
/// passed over.
void set_flat_grad(Module& module, std::span<const float> values);
void set_flat_grad(Module& module, std::span<const double> values);

}  // namespace trainrt

#endif  // TRAINRT_FLAT_H_
