// Writes a model with new weights. Private to the frontend.
#ifndef TRAINRT_FRONTEND_WRITER_H_
#define TRAINRT_FRONTEND_WRITER_H_

#include <cstdint>
#include <map>
#include <string>

#include "frontend/imported.h"

namespace trainrt {

struct WriteOptions {
  /// Models above this many bytes get external data.
  uint64_t external_above = (uint64_t{1} << 31) - (uint64_t{1} << 24);
};

/// See OnnxModel::save.
void write_model(const ImportedModel& model, const std::string& path,
                 const std::map<std::string, Tensor>& values, const WriteOptions& options = {});

/// The model with the bytes that were moved to weights, all of them inside.
onnx::ModelProto whole_proto(const ImportedModel& model);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_WRITER_H_
