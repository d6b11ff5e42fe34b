// What PyTorch's exporters note in a file about the module it came from. Private to the frontend.
#ifndef TRAINRT_FRONTEND_TORCH_METADATA_H_
#define TRAINRT_FRONTEND_TORCH_METADATA_H_

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/onnx_pb.h"

namespace trainrt {

struct TorchMetadata {
  bool from_torch = false;
  /// Names of the module's state, from the signature that the dynamo exporter writes; empty without
  /// one. A buffer that is not persistent is in no state_dict.
  std::vector<std::string> parameters, buffers, other_buffers;
  /// By initializer: what the exporter's optimizer computed it from, weights and values.
  std::map<std::string, std::vector<std::string>> folded_from;
  /// Initializers that are noted to hold an entry of the signature.
  std::set<std::string> unchanged;

  bool has_signature() const { return !parameters.empty() || !buffers.empty(); }
  bool is_parameter(std::string_view name) const;
  bool is_buffer(std::string_view name) const;  // persistent or not
  /// Parameters and persistent buffers.
  bool in_state(std::string_view name) const;
  /// The parameters among what `weight` was folded from.
  std::vector<std::string> parameters_in(const std::string& weight) const;
};

TorchMetadata read_torch_metadata(const onnx::ModelProto& model);

/// Elements of a list of strings as the dynamo exporter writes it: "['', 'layer1', 'conv2d']".
std::vector<std::string> parse_list(std::string_view text);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_TORCH_METADATA_H_
