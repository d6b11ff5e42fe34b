// Tensors: what they hold, and the ways in and out without a copy.
//   tensors MODEL.onnx BATCH.npz FOLDER
#include <dlpack/dlpack.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "trainrt/data.h"
#include "trainrt/dlpack.h"
#include "trainrt/eigen.h"
#include "trainrt/module.h"

namespace {

using trainrt::DType;
using trainrt::Tensor;

void basics() {
  Tensor t(DType::kFloat32, {2, 3});  // zeros
  t.data<float>()[4] = 1.5f;          // a std::span; row 1, column 1

  const Tensor same = t;            // the same bytes
  const Tensor copy = t.clone();    // bytes of its own
  const Tensor row = t.rows(1, 2);  // the same bytes again
  t.fill(7);
  std::printf("%s %s, strides %s, on %s: %g %g %g\n", dtype_name(t.dtype()).data(),
              trainrt::to_string(t.shape()).c_str(), trainrt::to_string(t.strides()).c_str(),
              trainrt::to_string(t.device()).c_str(), same.data<float>()[4], copy.data<float>()[4],
              row.data<float>()[1]);
}

/// The mean of the elements, as another library may compute it. It takes the tensor over.
double mean_by_other_library(DLManagedTensorVersioned* managed) {
  const DLTensor& t = managed->dl_tensor;
  const auto* values = static_cast<const float*>(t.data);
  int64_t count = 1;
  for (int i = 0; i < t.ndim; ++i) count *= t.shape[i];
  const double mean = std::accumulate(values, values + count, 0.0) / static_cast<double>(count);
  managed->deleter(managed);
  return mean;
}

void run(const char* model, const char* file, const std::string& folder) {
  basics();
  trainrt::Module module(model);
  module.eval();

  // Memory of one's own becomes a tensor without a copy.
  std::vector<float> pixels(2 * 8 * 8);
  const Tensor images = Tensor::view(std::span(pixels), {2, 1, 8, 8});
  pixels[9] = 1;  // the tensor sees it
  const Tensor two = module.forward({images})[0];

  // With an owner the memory lives as long as any tensor that shares it.
  auto ids = std::make_shared<std::vector<int64_t>>(std::vector<int64_t>{3, 1, 4});
  const Tensor target = Tensor::view(std::span(*ids), {3}, ids);
  ids.reset();
  std::printf("view: %s, owned: %g\n", trainrt::to_string(two.shape()).c_str(),
              target.rows(2, 3).item());

  // Eigen sees the rows of a tensor as those of a matrix.
  const trainrt::TensorMap batch = trainrt::load_npz(file);
  const Tensor logits = module.forward({batch.at("x")})["logits"];
  const auto scores = trainrt::as_matrix<float>(logits);
  const auto classes = trainrt::as_vector<int64_t>(batch.at("target"));
  int64_t right = 0;
  for (Eigen::Index i = 0; i < scores.rows(); ++i) {
    Eigen::Index best = 0;
    scores.row(i).maxCoeff(&best);
    right += best == classes(i);
  }
  const trainrt::Tensor centered = trainrt::from_eigen(scores.rowwise() - scores.colwise().mean());
  std::printf("eigen: %lld of %lld right\n", static_cast<long long>(right),
              static_cast<long long>(scores.rows()));

  // DLPack hands the bytes to another library, and takes its tensors.
  const double mean = mean_by_other_library(trainrt::to_dlpack_versioned(logits));
  const Tensor back = trainrt::from_dlpack(trainrt::to_dlpack_versioned(logits));
  std::printf("dlpack: mean %.4f, shared: %s\n", mean, back.raw() == logits.raw() ? "yes" : "no");

  // Files.
  trainrt::save_npy(folder + "/logits.npy", logits);
  trainrt::save_npz(folder + "/both.npz", {{"logits", logits}, {"centered", centered}});
  trainrt::save_safetensors(folder + "/state.safetensors", module.state_dict());
  module.load_state_dict(trainrt::load_safetensors(folder + "/state.safetensors"));
  const Tensor read = trainrt::load_npy(folder + "/logits.npy");
  std::printf("files: %s\n", trainrt::to_string(read.shape()).c_str());

  // What does not fit is refused before anything runs.
  try {
    module.forward({Tensor(DType::kInt64, {2, 1, 8, 8})});
  } catch (const trainrt::Error& error) {
    std::printf("refused: %s\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: tensors MODEL.onnx BATCH.npz FOLDER\n");
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3]);
  } catch (const trainrt::Error& error) {
    std::fprintf(stderr, "tensors: %s\n", error.what());
    return 1;
  }
}
