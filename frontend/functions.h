// Local functions of a model and the attributes of their calls. Private to the frontend.
#ifndef TRAINRT_FRONTEND_FUNCTIONS_H_
#define TRAINRT_FRONTEND_FUNCTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "onnx/onnx_pb.h"
#include "trainrt/error.h"

namespace trainrt {

inline constexpr int kMaxGraphDepth = 64;        // subgraphs in subgraphs
inline constexpr int kMaxCallDepth = 64;         // functions calling functions
inline constexpr int64_t kMaxNodes = 1'000'000;  // after inlining

/// "" for both spellings of the default domain.
std::string normal_domain(const std::string& domain);

using OpsetImports = std::map<std::string, int64_t>;
OpsetImports read_opsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

/// Names that are visible at a point, and where their values are.
struct Scope {
  std::unordered_map<std::string, int32_t> names;
  const Scope* outer = nullptr;

  /// -2 when the name is not defined; -1 for an absent optional input of a function.
  int32_t find(const std::string& name) const;
};

/// Where a node stands: what its attribute references and nested graphs mean.
struct CallSite;
struct BoundAttribute {
  const onnx::AttributeProto* proto = nullptr;
  const Scope* scope = nullptr;  // of the caller, for graph attributes
  const CallSite* site = nullptr;
};
struct CallSite {
  const onnx::FunctionProto* function = nullptr;  // null in the main graph
  const CallSite* caller = nullptr;
  OpsetImports opsets;
  std::map<std::string, BoundAttribute> attributes;
  std::string prefix;  // of names inside, for printing
  int calls = 0;       // depth
};

class FunctionTable {
 public:
  /// Adds a problem for each function that is defined twice.
  FunctionTable(const onnx::ModelProto& model, Diagnostics& problems);
  const onnx::FunctionProto* find(const onnx::NodeProto& node) const;

 private:
  std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*> table_;
};

/// The attribute itself, or what a reference stands for; a null proto when the caller left it out.
BoundAttribute resolve_attribute(const onnx::AttributeProto& attribute, const Scope& scope,
                                 const CallSite& site);

/// What the body of a function sees when `node` calls it. Throws Error(kInvalidModel) for recursion
/// and for calls nested too deeply.
CallSite enter_call(const onnx::NodeProto& node, const onnx::FunctionProto& function,
                    const Scope& scope, const CallSite& site, const OpsetImports& model_opsets,
                    const std::string& label);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_FUNCTIONS_H_
