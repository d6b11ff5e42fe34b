// Where in a graph's list of nodes calls of modules begin and end. Private to the frontend.
#ifndef TRAINRT_FRONTEND_MODULE_CALLS_H_
#define TRAINRT_FRONTEND_MODULE_CALLS_H_

#include <string>
#include <vector>

#include "frontend/imported.h"

namespace trainrt {

struct CallStep {
  enum class Kind : uint8_t { kNode, kEnter, kLeave };
  Kind kind = Kind::kNode;
  const ImportedNode* node = nullptr;
  std::string module;           // kEnter, kLeave
  std::vector<int32_t> values;  // kEnter: what the call reads; kLeave: its results that others read
};

/// The needed nodes of a graph in an order in which each call of one of `modules` is one piece,
/// with the borders of the calls. A call is a run of the module's nodes; what lies between them and
/// does not depend on them is moved before the run, anything else ends it. So does a node that
/// reads parameters again when the run has read all of the module's: the module is called once
/// more.
std::vector<CallStep> find_calls(const ImportedModel& model, const ImportedGraph& graph,
                                 const std::vector<std::string>& modules);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_MODULE_CALLS_H_
