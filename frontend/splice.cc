#include "frontend/splice.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "frontend/module_calls.h"
#include "frontend/scope.h"
#include "frontend/writer.h"

namespace trainrt {
namespace {

using Names = std::vector<std::string>;

std::string list(const Names& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text.empty() ? "none" : text;
}

/// Calls visit(name*) for every name that a node reads or makes, subgraphs included.
template <typename Visit>
void for_each_name(onnx::NodeProto& node, const Visit& visit) {
  for (std::string& name : *node.mutable_input()) visit(name, true);
  for (std::string& name : *node.mutable_output()) visit(name, false);
  const auto graph = [&](onnx::GraphProto& g) {
    for (onnx::NodeProto& inner : *g.mutable_node()) for_each_name(inner, visit);
    for (auto& t : *g.mutable_initializer()) visit(*t.mutable_name(), false);
    for (auto& v : *g.mutable_input()) visit(*v.mutable_name(), false);
    for (auto& v : *g.mutable_output()) visit(*v.mutable_name(), true);
  };
  for (onnx::AttributeProto& a : *node.mutable_attribute()) {
    if (a.has_g()) graph(*a.mutable_g());
    for (onnx::GraphProto& g : *a.mutable_graphs()) graph(g);
  }
}

struct Place {
  std::unordered_set<const onnx::NodeProto*> members;
  Names inputs, outputs;
};

Place find_place(const ImportedModel& model, const std::string& target) {
  Place place;
  int calls = 0;
  bool inside = false;
  const auto name = [&](int32_t v) { return model.values[static_cast<size_t>(v)].name; };
  for (const CallStep& step : find_calls(model, model.graph, {target})) {
    if (step.kind == CallStep::Kind::kNode) {
      if (inside) place.members.insert(step.node->proto);
      continue;
    }
    inside = step.kind == CallStep::Kind::kEnter;
    calls += inside ? 1 : 0;
    for (int32_t v : step.values) {
      if (model.values[static_cast<size_t>(v)].weight >= 0) continue;
      (inside ? place.inputs : place.outputs).push_back(name(v));
    }
  }
  if (calls == 1) {
    const auto& nodes = model.proto.graph().node();
    const auto own = std::count_if(nodes.begin(), nodes.end(),
                                   [&](const auto& n) { return place.members.contains(&n); });
    if (static_cast<size_t>(own) == place.members.size()) return place;
  }
  throw Error(ErrorCode::kUnsupported,
              "'" + target + "' cannot be replaced: " +
                  (calls == 0   ? "its nodes lie inside of an If, Loop or Scan"
                   : calls == 1 ? "its nodes come from a local function"
                                : "it is called " + std::to_string(calls) + " times"));
}

void check_signature(const Place& place, const ImportedModel& part, const std::string& target) {
  Names inputs, outputs;
  for (const Port& p : part.inputs) inputs.push_back(p.name);
  for (const Port& p : part.outputs) outputs.push_back(p.name);
  if (inputs.size() == place.inputs.size() && outputs.size() == place.outputs.size()) return;
  throw Error(ErrorCode::kInput, "'" + target + "' reads " + list(place.inputs) + " and gives " +
                                     list(place.outputs) + "; the other model reads " +
                                     list(inputs) + " and gives " + list(outputs));
}

void merge_opsets(onnx::ModelProto& whole, const ImportedModel& model, const ImportedModel& part) {
  for (const auto& [domain, version] : part.opsets) {
    const auto own = model.opsets.find(domain);
    if (own == model.opsets.end()) {
      auto* added = whole.add_opset_import();
      added->set_domain(domain);
      added->set_version(version);
    } else if (own->second != version) {
      throw Error(ErrorCode::kUnsupported,
                  "the models use different opsets of " + (domain.empty() ? "ai.onnx" : domain) +
                      ": " + std::to_string(own->second) + " and " + std::to_string(version) +
                      "; export both with the same one");
    }
  }
}

/// Scopes of the part's nodes get the target before them.
void move_scope(onnx::NodeProto& node, const std::string& target) {
  for (auto& p : *node.mutable_metadata_props()) {
    if (p.key() != "pkg.torch.onnx.name_scopes" && p.key() != "pkg.torch.onnx.class_hierarchy") {
      continue;
    }
    const bool scopes = p.key() == "pkg.torch.onnx.name_scopes";
    Names items = parse_list(p.value());
    for (size_t i = 0; scopes && i + 1 < items.size(); ++i) {
      items[i] = items[i].empty() ? target : target + "." + items[i];
    }
    items.insert(items.begin(), "");
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "['" : ", '") + item + "'";
    p.set_value(text + "]");
  }
  std::string name = node.name();
  node.set_name("/" + target + (name.starts_with("/") ? "" : "/") + name);
}

}  // namespace

onnx::ModelProto splice(const ImportedModel& model, const std::string& target,
                        const ImportedModel& part) {
  const Place place = find_place(model, target);
  check_signature(place, part, target);
  onnx::ModelProto whole = whole_proto(model);
  onnx::ModelProto other = whole_proto(part);
  merge_opsets(whole, model, part);
  for (const onnx::FunctionProto& f : other.functions()) {
    for (const onnx::FunctionProto& own : whole.functions()) {
      if (own.name() == f.name() && own.domain() == f.domain()) {
        throw Error(ErrorCode::kUnsupported,
                    "both models have a local function '" + f.name() + "'");
      }
    }
    *whole.add_functions() = f;
  }

  // Names of the part: its ports are those of the place, weights lie below the target.
  onnx::GraphProto& graph = *other.mutable_graph();
  std::map<std::string, std::string> names;
  std::set<std::string> weights;
  for (const auto& t : graph.initializer()) weights.insert(t.name());
  for (const auto& t : graph.sparse_initializer()) weights.insert(t.values().name());
  for (size_t i = 0; i < part.inputs.size(); ++i) names[part.inputs[i].name] = place.inputs[i];
  const std::string inner = "/" + target + "/";
  for (const std::string& w : weights) names.try_emplace(w, target + "." + w);
  const auto renamed = [&](const std::string& name) {
    const auto found = names.find(name);
    return found != names.end() ? found->second : inner + name;
  };

  // What does not depend on the module, the part, what does.
  auto* nodes = whole.mutable_graph()->mutable_node();
  std::vector<onnx::NodeProto> before, after;
  std::unordered_set<std::string> late(place.outputs.begin(), place.outputs.end());
  for (int i = 0; i < nodes->size(); ++i) {
    if (place.members.contains(&model.proto.graph().node(i))) continue;
    onnx::NodeProto& node = *nodes->Mutable(i);
    bool waits = false;
    for_each_name(node, [&](const std::string& name, bool reads) {
      waits = waits || (reads && late.contains(name));
    });
    if (waits) late.insert(node.output().begin(), node.output().end());
    (waits ? after : before).push_back(std::move(node));
  }
  nodes->Clear();
  for (auto& node : before) *nodes->Add() = std::move(node);
  for (auto& t : *graph.mutable_initializer()) {
    t.set_name(renamed(t.name()));
    *whole.mutable_graph()->add_initializer() = std::move(t);
  }
  for (auto& t : *graph.mutable_sparse_initializer()) {
    t.mutable_values()->set_name(renamed(t.values().name()));
    *whole.mutable_graph()->add_sparse_initializer() = std::move(t);
  }
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for_each_name(node, [&](std::string& name, bool) {
      if (!name.empty()) name = renamed(name);
    });
    move_scope(node, target);
    *nodes->Add() = std::move(node);
  }
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    onnx::NodeProto& node = *nodes->Add();
    node.set_op_type("Identity");
    node.set_name(inner + "output_" + std::to_string(i));
    node.add_input(renamed(part.outputs[i].name));
    node.add_output(place.outputs[i]);
  }
  for (auto& node : after) *nodes->Add() = std::move(node);
  return whole;
}

}  // namespace trainrt
