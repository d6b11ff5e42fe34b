// From bytes to protobuf, and from protobuf tensors to Tensors, with every size checked before it
// is used. Private to the frontend.
#ifndef TRAINRT_FRONTEND_DECODE_H_
#define TRAINRT_FRONTEND_DECODE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "onnx/onnx_pb.h"
#include "trainrt/tensor.h"

namespace trainrt {

/// Throw Error(kFile) when the bytes are no ONNX model. Nesting is bounded.
void parse_model_file(const std::string& path, onnx::ModelProto* model);
void parse_model_bytes(std::span<const char> bytes, onnx::ModelProto* model);

/// A place of a model that holds numbers: a tensor, or the `value_floats` of a Constant node.
struct Slot {
  onnx::TensorProto* tensor = nullptr;
  onnx::AttributeProto* floats = nullptr;

  const void* key() const {
    return tensor != nullptr ? static_cast<const void*>(tensor) : static_cast<const void*>(floats);
  }
};

/// Visits every slot and every node (subgraphs and function bodies included) in a fixed order, so
/// that the n-th of a copy stands for the n-th of the original.
void for_each_slot(onnx::ModelProto& model, const std::function<void(const Slot&)>& visit);
void for_each_node(onnx::ModelProto& model,
                   const std::function<void(onnx::NodeProto*, bool in_function)>& visit);

/// The contents of a slot.
struct Stored {
  Tensor value;             // undefined when unsupported is set
  std::string unsupported;  // why the contents cannot be used ("string tensor"), else empty
  /// The bytes moved from the protobuf to `value`: the writer puts them back.
  bool moved = false;
  bool external = false;
  /// ONNX's number of an element type that is none of DType's (float8, int4, …), which `value`
  /// holds widened; else 0.
  int64_t narrow = 0;
  /// Of external narrow tensors: the bytes as they were, which the writer copies.
  Tensor packed;
};

/// Reads tensors; external data only from regular files below the folder.
class TensorReader {
 public:
  explicit TensorReader(std::string folder) : folder_(std::move(folder)) {}
  /// Takes the bytes out of the tensor. Throws Error(kInvalidModel) or Error(kFile) without the
  /// tensor's name.
  Stored take(onnx::TensorProto& tensor);

 private:
  struct ExternalFile {
    std::filesystem::path path;
    uint64_t size = 0;
    uint64_t read = 0;
  };
  /// Only checks when `out` is null.
  void read_external(const onnx::TensorProto& tensor, char* out, uint64_t bytes);
  ExternalFile& open(const std::string& location);

  std::string folder_;
  std::map<std::string, ExternalFile> files_;
};

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_DECODE_H_
