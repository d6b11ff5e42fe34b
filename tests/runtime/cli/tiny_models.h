// Small ONNX models, built with the protobuf API.
#ifndef TRAINRT_TESTS_RUNTIME_CLI_TINY_MODELS_H_
#define TRAINRT_TESTS_RUNTIME_CLI_TINY_MODELS_H_

#include <onnx/onnx_pb.h>

#include <string>

namespace trainrt {

struct MlpOptions {
  bool dropout = false, batch_norm = false;
  int64_t batch = 0;  // 0: a free dim "n"
};

/// x[n,4] -> Gemm fc1 (8) -> [BatchNormalization] -> Tanh -> [Dropout 0.5] -> Gemm fc2 (3) ->
/// y[n,3]
onnx::ModelProto mlp(const MlpOptions& options = {});
/// As mlp(), with a node "fancy_1" of an unknown domain and an unknown op "plain_2".
onnx::ModelProto mlp_with_unknown_ops();
/// y = x + 1: nothing to train.
onnx::ModelProto without_parameters();

}  // namespace trainrt

#endif  // TRAINRT_TESTS_RUNTIME_CLI_TINY_MODELS_H_
