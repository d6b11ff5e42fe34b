// A loss that a program builds, or an ONNX graph computes.
#ifndef TRAINRT_RUNTIME_CUSTOM_LOSS_H_
#define TRAINRT_RUNTIME_CUSTOM_LOSS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx_model.h"
#include "trainrt/loss.h"

namespace trainrt {

struct CustomLoss {
  int64_t number = 0;  // distinguishes the plans of different losses
  LossFunction build;
};

std::shared_ptr<const CustomLoss> make_custom_loss(LossFunction build);
/// `loss` has one output, a floating number. Its inputs with the names of outputs of the model are
/// those; the others are targets. Its weights are constants. Throws Error(kUsage) when it has other
/// outputs.
std::shared_ptr<const CustomLoss> make_graph_loss(std::shared_ptr<const OnnxModel> loss,
                                                  const OnnxModel& model);

/// Appends the loss. `targets` are the types of what the batch holds, by "target" and
/// "target/NAME"; inputs of role kTarget are made of those that are used. Throws Error(kUsage)
/// unless the result is one floating number.
Var build_custom_loss(const CustomLoss& loss, Builder& builder,
                      const std::vector<std::pair<std::string, ValueId>>& outputs,
                      const std::map<std::string, TensorType>& targets, DType working);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_CUSTOM_LOSS_H_
