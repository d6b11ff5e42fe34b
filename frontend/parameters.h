// Which stored values are parameters, which are buffers, and what they are called. Private to the
// frontend.
#ifndef TRAINRT_FRONTEND_PARAMETERS_H_
#define TRAINRT_FRONTEND_PARAMETERS_H_

#include <vector>

#include "frontend/imported.h"

namespace trainrt {

/// Sets `use`, `info.reason` and the original names of all weights; gives running statistics that
/// share an initializer through Identity nodes a buffer each.
void find_parameters(ImportedModel& model);

/// A node that reads a weight, and as which input.
struct WeightReader {
  const ImportedNode* node;
  size_t input;
};
/// By weight index.
std::vector<std::vector<WeightReader>> weight_readers(const ImportedModel& model);

/// By value: can a gradient flow from it to a float output of the model?
std::vector<bool> differentiable_values(const ImportedModel& model);

/// True for names that exporters make up for constants in the code of a model, whatever their size
/// (`/x/Constant_output_0`), and for those that folded weights get as well (`val_12`, `428`).
bool is_constant_name(const std::string& name);
bool is_made_up_name(const std::string& name);

/// Fills `original`, `transposed`, `module` and `origin` of every weight.
void name_weights(ImportedModel& model);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_PARAMETERS_H_
