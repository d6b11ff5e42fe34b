// Which array of a data file goes where.
#ifndef TRAINRT_RUNTIME_CLI_FIELDS_H_
#define TRAINRT_RUNTIME_CLI_FIELDS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

namespace trainrt::cli {

struct FieldRequest {
  std::vector<std::string> fields;   // arrays of the data
  std::vector<std::string> inputs;   // of the model, without those that are fixed
  std::vector<std::string> outputs;  // of the model
  std::string source;                // the data, for messages
  bool targets = true;               // keep `target` and `target/OUTPUT`
  bool output_grads = false;         // keep `dy/OUTPUT`
};

struct FieldMap {
  std::map<std::string, std::string> names;  // array to name in the batch
  std::vector<std::string> notes;            // worth telling
  std::set<std::string> guessed;             // inputs matched without their name
};

/// Arrays named as an input (or "in/NAME"), "target" and "target/OUTPUT" go to their namesakes. One
/// input without an array takes the only array that is left, whatever its name. An input without an
/// array throws Error(kInput) naming it and the arrays there are.
FieldMap match_fields(const FieldRequest& request);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_FIELDS_H_
