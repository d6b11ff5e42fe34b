// Where the values of a framework's state_dict lie in a file's weights.
#ifndef TRAINRT_FRONTEND_STATE_LAYOUT_H_
#define TRAINRT_FRONTEND_STATE_LAYOUT_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trainrt/tensor.h"

namespace trainrt {

/// A tensor of the framework. Several entries may have one key (the file holds it more than once)
/// or lie in one place (the framework knows it under several names).
struct StateEntry {
  std::string key;
  Shape shape;         // in the framework
  std::string weight;  // file name of the parameter or buffer that holds it
  bool transposed = false;
  /// The tensor is blocks of equal size; block i is block blocks[i] of the weight's elements from
  /// `offset` on. One block unless the file has gates in another order.
  int64_t offset = 0;
  std::vector<int64_t> blocks = {0};
};

/// A stored value that nothing trains.
struct StateConstant {
  std::string name;  // in the file
  Tensor value;
  bool in_state = false;  // part of the framework's state_dict
};

/// Weights of the file that held the same values: one weight in the framework.
struct StateTwins {
  std::string first, second;
  bool transposed = false;
};

struct StateLayout {
  std::vector<StateEntry> entries;  // in the file's order of weights
  /// Parameters that hold none of the framework's tensors as they are: file name and reason.
  std::map<std::string, std::string> refused;
  /// Tensors of the framework that no weight of the file holds.
  std::vector<std::string> lost;
  std::set<std::string> lost_parameters;  // those of them that are no buffers
  std::vector<StateConstant> constants;
  std::vector<StateTwins> twins;

  std::vector<const StateEntry*> find(const std::string& key) const;
  std::vector<const StateEntry*> in_weight(const std::string& weight) const;
  /// True for keys of entries and lost keys.
  bool knows(const std::string& key) const;
};

struct ImportedModel;

/// Also sets the names of weights that hold another tensor than their name says.
StateLayout make_state_layout(ImportedModel& model);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_STATE_LAYOUT_H_
