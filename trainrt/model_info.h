// What an ONNX file says of itself.
#ifndef TRAINRT_MODEL_INFO_H_
#define TRAINRT_MODEL_INFO_H_

#include <cstdint>
#include <map>
#include <string>

namespace trainrt {

struct ModelInfo {
  std::string name, doc, producer, producer_version, domain;
  int64_t model_version = 0, ir_version = 0;
  std::map<std::string, int64_t> opsets;        // by domain; "" is ai.onnx
  std::map<std::string, std::string> metadata;  // metadata_props
  std::map<std::string, int64_t> op_counts;     // functions inlined
  std::string graph;                            // one line a node, with the file's names
};

}  // namespace trainrt

#endif  // TRAINRT_MODEL_INFO_H_
