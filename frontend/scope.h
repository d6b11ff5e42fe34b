// Which module of the original framework a node belongs to. Private to the frontend.
#ifndef TRAINRT_FRONTEND_SCOPE_H_
#define TRAINRT_FRONTEND_SCOPE_H_

#include <string>
#include <string_view>
#include <vector>

#include "frontend/imported.h"

namespace trainrt {

/// The node's metadata property; empty when there is none.
std::string_view metadata(const ImportedNode& node, std::string_view key);

/// Dotted path from PyTorch's exporters: scopes in node names ("/net/fc/MatMul") or metadata. Empty
/// where nothing tells it.
std::string torch_scope(const ImportedNode& node);
/// Whether `path` is `module` or lies below it. Everything lies below "".
bool is_inside(std::string_view path, std::string_view module);

/// Fills `module` and `scope` of all nodes and the model's list of modules. Scopes come from
/// PyTorch's exporters, from the slashes of Keras names
/// ("StatefulPartitionedCall/model/dense/MatMul") or from the weights that a node reads, when they
/// have one owner.
void find_modules(ImportedModel& model);

}  // namespace trainrt

#endif  // TRAINRT_FRONTEND_SCOPE_H_
