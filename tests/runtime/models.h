// Tiny ONNX models for the tests of the runtime, and central differences on them.
#ifndef TRAINRT_TESTS_RUNTIME_MODELS_H_
#define TRAINRT_TESTS_RUNTIME_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "trainrt/module.h"

namespace trainrt::testing {

/// x [n,4] -> fc1 (relu) -> fc2 -> y [n,3]; weights fc1.weight [4,8], fc1.bias, fc2.weight,
/// fc2.bias.
std::string mlp_model();
/// As mlp_model() with Dropout (ratio 0.5) behind the relu.
std::string dropout_model();
/// x [n,2,k] -> BatchNormalization (bn.weight, bn.bias, bn.mean, bn.var) -> y.
std::string batch_norm_model();
/// x [n,3,16,16] -> four times Conv, BatchNormalization, Relu, Dropout, the last two with a sum
/// around them -> y [n,16].
std::string conv_model();
/// ids [n] int64 -> Gather(table [5,3]) -> y [n,3].
std::string embedding_model();
/// x [n,6], shape [r] int64 -> Reshape(x * scale [6], shape) -> y.
std::string reshape_model();
/// x [n,2] -> a = x * w, b = exp(a); outputs a and b. One weight w [2].
std::string two_output_model();
/// xs, a sequence of [n,2] -> ys, the sequence of x * w. One weight w [2].
std::string sequence_model();
/// x [n,4] -> product and sum with the names that tf2onnx gives a Keras layer "model/dense" -> y.
std::string keras_model();
/// The same with Paddle's: weights linear_0.w_0 and linear_0.b_0, nodes p2o.MatMul.0 and p2o.Add.0.
std::string paddle_model();
/// x [n,4] -> Gemm (fc.weight [4,2], fc.bias) -> y [n,2].
std::string head_model(int64_t opset = 17);
/// x [n,2] -> y = relu(x): nothing to train.
std::string plain_model();

Module load(const std::string& bytes, ModuleOptions options = {});
/// float64, reference kernels.
ModuleOptions exact();

/// Deterministic numbers in [-1, 1].
Tensor numbers(Shape shape, uint64_t seed = 1, DType dtype = DType::kFloat64);
Tensor ids(std::vector<int64_t> values);

double largest_difference(const Tensor& a, const Tensor& b);

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_RUNTIME_MODELS_H_
