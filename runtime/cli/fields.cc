#include "runtime/cli/fields.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "trainrt/error.h"

namespace trainrt::cli {
namespace {

constexpr std::array<std::string_view, 4> kTargetNames = {"label", "labels", "targets", "y"};
constexpr std::array<std::string_view, 7> kFeatureNames = {"x",      "data",  "images",  "image",
                                                           "inputs", "input", "features"};
constexpr std::array<std::string_view, 3> kResults = {"out/", "output/", "grad/"};

template <typename List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "'" : ", '") + name + "'";
  return out.empty() ? "nothing" : out;
}

}  // namespace

FieldMap match_fields(const FieldRequest& request) {
  FieldMap map;
  std::set<std::string> filled;
  std::vector<std::string> left;
  for (const std::string& field : request.fields) {
    const bool prefixed = field.starts_with("in/");
    const bool target_of = field.starts_with("target/"), dy = field.starts_with("dy/");
    if (contains(request.inputs, field)) {
      map.names[field] = field;
      filled.insert(field);
    } else if (prefixed && contains(request.inputs, field.substr(3))) {
      if (contains(request.fields, field.substr(3))) continue;  // the plain name wins
      map.names[field] = field.substr(3);
      filled.insert(field.substr(3));
    } else if (field == "target" || target_of) {
      const std::string output = target_of ? field.substr(7) : "";
      if (target_of && !contains(request.outputs, output)) {
        throw Error(ErrorCode::kInput, request.source + " has '" + field +
                                           "', but the model's outputs are " +
                                           join(request.outputs));
      }
      if (request.targets) map.names[field] = field;
    } else if (dy) {
      if (request.output_grads) map.names[field] = field;
    } else if (std::none_of(kResults.begin(), kResults.end(),
                            [&](std::string_view prefix) { return field.starts_with(prefix); })) {
      left.push_back(field);
    }
  }

  if (request.targets && !contains(request.fields, "target")) {
    for (const std::string_view name : kTargetNames) {
      const auto at = std::find(left.begin(), left.end(), name);
      if (at == left.end() || map.names.contains("target")) continue;
      map.names[*at] = "target";
      map.notes.push_back("array '" + *at + "' of " + request.source + " is taken as the target");
      left.erase(at);
      break;
    }
  }

  std::vector<std::string> missing;
  for (const std::string& input : request.inputs) {
    if (!filled.contains(input)) missing.push_back(input);
  }
  if (missing.size() == 1) {
    std::vector<std::string> candidates = left;
    if (left.size() > 1) {
      std::erase_if(candidates, [](const std::string& n) { return !contains(kFeatureNames, n); });
    }
    if (candidates.size() == 1) {
      map.names[candidates[0]] = missing[0];
      map.guessed.insert(missing[0]);
      map.notes.push_back("array '" + candidates[0] + "' of " + request.source +
                          " is taken as input '" + missing[0] + "'");
      std::erase(left, candidates[0]);
      missing.clear();
    }
  }
  if (!missing.empty()) {
    throw Error(ErrorCode::kInput, "input " + join(missing) + " of the model has no array in " +
                                       request.source + ", which holds " + join(request.fields));
  }
  if (!left.empty()) {
    map.notes.push_back("not used of " + request.source + ": " + join(left));
  }
  return map;
}

}  // namespace trainrt::cli
