// Small models written as text (ONNX's own syntax), and their results on the reference kernels.
#ifndef TRAINRT_TESTS_FRONTEND_MODEL_UTIL_H_
#define TRAINRT_TESTS_FRONTEND_MODEL_UTIL_H_

#include <map>
#include <string>
#include <vector>

#include "frontend/onnx_model.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {

using Tensors = std::map<std::string, Tensor>;

/// The protobuf bytes of a model in ONNX's text syntax, where `a.name/like:this` may stand in
/// backticks and [name] before a node; fails the test when it does not parse.
std::string model_bytes(const std::string& text);
OnnxModel model_of(const std::string& text);
OnnxModel load_bytes(const std::string& bytes, const std::string& folder = ".");
/// What loading throws; empty when it does not.
std::string load_error(const std::string& bytes);

/// A model of one graph: header for opset 17 (IR 8) and the given graph text.
std::string graph_text(const std::string& graph, int opset = 17);

struct Lowered {
  Specialized result;
  std::vector<Problem> problems;
};
/// Inputs with a value in `known` are bound by value.
Lowered lower(const OnnxModel& model, const Tensors& inputs, const Tensors& known = {},
              SpecializeOptions options = {.working = DType::kFloat64});

/// Outputs by name, computed in float64; fails the test when there are problems. Buffers are taken
/// from `weights` where given there, and updated in it.
Tensors run(const OnnxModel& model, const Tensors& inputs, const Tensors& known = {},
            SpecializeOptions options = {.working = DType::kFloat64}, Tensors* weights = nullptr);

/// The reason of the only problem; fails the test when there is none or there are several.
Problem only_problem(const OnnxModel& model, const Tensors& inputs);

Tensor doubles(std::initializer_list<double> values, Shape shape);
/// Values in [-1, 1) from a fixed sequence.
Tensor pseudo_random(Shape shape, uint64_t seed);
/// Largest difference of two tensors of one shape.
double max_difference(const Tensor& a, const Tensor& b);

void write_file(const std::string& path, const std::string& bytes);

}  // namespace trainrt

#endif  // TRAINRT_TESTS_FRONTEND_MODEL_UTIL_H_
