// Writes docs/ops.md from the tables of the frontend, the gradient rules and the kernels.
#ifndef TRAINRT_TESTS_DOCS_OPS_TABLE_H_
#define TRAINRT_TESTS_DOCS_OPS_TABLE_H_

#include <span>
#include <string>
#include <string_view>

namespace trainrt {

std::string ops_table();

/// Operators through which others have gradients.
std::span<const std::string_view> onnxruntime_gradients();
std::span<const std::string_view> onnxsim_gradients();
/// Whether gradients flow through an operator here.
bool has_gradient(std::string_view op);

}  // namespace trainrt

#endif  // TRAINRT_TESTS_DOCS_OPS_TABLE_H_
