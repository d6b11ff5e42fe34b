// One case of ONNX's backend tests: a model with inputs and the outputs that it must give.
#ifndef TRAINRT_TESTS_CONFORMANCE_CASE_H_
#define TRAINRT_TESTS_CONFORMANCE_CASE_H_

#include <filesystem>
#include <string>
#include <vector>

#include "onnx/onnx_pb.h"
#include "trainrt/tensor.h"

namespace trainrt::conformance {

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

struct Case {
  std::string name;  // "node/test_abs"
  std::filesystem::path model;
  /// Empty for the "real" models: their input is a ramp, their outputs lie beside the model.
  std::vector<std::filesystem::path> data_sets;
  std::filesystem::path outputs_beside;
  Tolerance tolerance;
};

/// Inputs and outputs by name; entry k of the sequence x is called "x[k]".
struct DataSet {
  TensorMap inputs, outputs;
};

/// Every case below the folder, in order of its name.
std::vector<Case> find_cases(const std::filesystem::path& folder);

onnx::ModelProto read_model(const Case& c);
std::vector<DataSet> read_data(const Case& c, const onnx::ModelProto& model);

}  // namespace trainrt::conformance

#endif  // TRAINRT_TESTS_CONFORMANCE_CASE_H_
