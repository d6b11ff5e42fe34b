#include "frontend/functions.h"

#include <algorithm>

namespace trainrt {

std::string normal_domain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

OpsetImports read_opsets(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  OpsetImports opsets;
  for (const onnx::OperatorSetIdProto& o : imports) {
    int64_t& version = opsets[normal_domain(o.domain())];
    version = std::max<int64_t>(version, o.version());
  }
  return opsets;
}

int32_t Scope::find(const std::string& name) const {
  for (const Scope* s = this; s != nullptr; s = s->outer) {
    const auto it = s->names.find(name);
    if (it != s->names.end()) return it->second;
  }
  return -2;
}

FunctionTable::FunctionTable(const onnx::ModelProto& model, Diagnostics& problems) {
  for (const onnx::FunctionProto& f : model.functions()) {
    if (!table_.emplace(std::tuple(normal_domain(f.domain()), f.name(), f.overload()), &f).second) {
      problems.add({f.name(), "", f.domain(), 0, "invalid",
                    "the function " + f.domain() + "::" + f.name() + " is defined twice"});
    }
  }
}

const onnx::FunctionProto* FunctionTable::find(const onnx::NodeProto& node) const {
  if (table_.empty()) return nullptr;
  const auto it =
      table_.find(std::tuple(normal_domain(node.domain()), node.op_type(), node.overload()));
  return it == table_.end() ? nullptr : it->second;
}

BoundAttribute resolve_attribute(const onnx::AttributeProto& attribute, const Scope& scope,
                                 const CallSite& site) {
  if (attribute.ref_attr_name().empty()) return {&attribute, &scope, &site};
  const auto it = site.attributes.find(attribute.ref_attr_name());
  return it == site.attributes.end() ? BoundAttribute{} : it->second;
}

CallSite enter_call(const onnx::NodeProto& node, const onnx::FunctionProto& function,
                    const Scope& scope, const CallSite& site, const OpsetImports& model_opsets,
                    const std::string& label) {
  const std::string name = function.domain() + "::" + function.name();
  for (const CallSite* s = &site; s != nullptr; s = s->caller) {
    if (s->function == &function) {
      throw Error(ErrorCode::kInvalidModel, "the function " + name + " calls itself");
    }
  }
  if (site.calls >= kMaxCallDepth) {
    throw Error(ErrorCode::kInvalidModel, "functions call each other more than " +
                                              std::to_string(kMaxCallDepth) + " levels deep");
  }
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
    throw Error(ErrorCode::kInvalidModel,
                "the function " + name + " has " + std::to_string(function.input_size()) +
                    " inputs and " + std::to_string(function.output_size()) +
                    " outputs, the node " + std::to_string(node.input_size()) + " and " +
                    std::to_string(node.output_size()));
  }
  CallSite inside;
  inside.function = &function;
  inside.caller = &site;
  inside.calls = site.calls + 1;
  inside.prefix = site.prefix + label + "/";
  inside.opsets = read_opsets(function.opset_import());
  for (const auto& [domain, version] : model_opsets) inside.opsets.emplace(domain, version);
  for (const onnx::AttributeProto& a : function.attribute_proto()) {
    inside.attributes[a.name()] = {&a, &scope, &site};
  }
  for (const onnx::AttributeProto& a : node.attribute()) {
    const BoundAttribute bound = resolve_attribute(a, scope, site);
    if (bound.proto != nullptr) inside.attributes[a.name()] = bound;
  }
  return inside;
}

}  // namespace trainrt
