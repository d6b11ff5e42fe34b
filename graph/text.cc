#include "graph/text.h"

#include <algorithm>

#include "graph/attr_fields.h"
#include "graph/text_names.h"

namespace trainrt {
namespace {

// As it is when the parser can take it so, else quoted.
std::string plain_or_quoted(const std::string& name) {
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), is_name_char);
  return plain ? name : quote(name);
}

std::string value_ref(ValueId id) { return "%" + std::to_string(id.index); }

void print_node(const Graph& graph, const Node& node, std::string& out) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (i > 0) out += ", ";
    out += value_ref(node.outputs[i]) + ':' + to_string(graph.type(node.outputs[i]));
  }
  out += " = ";
  out += op_info(node.op).name;
  out += '(';
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i > 0) out += ", ";
    out += value_ref(node.inputs[i]);
  }
  out += ')';
  const std::string attrs = to_string(node.attrs);
  if (!attrs.empty()) out += ' ' + attrs;
  const SourceRef& source = graph.source(node);
  if (!source.op.empty()) {
    out += "  // " + plain_or_quoted(source.node) + " (" + plain_or_quoted(source.op) + ')';
  }
  out += '\n';
}

}  // namespace

std::string print(const Graph& graph) {
  std::string out;
  int section = -1;
  for (const Node& node : graph.nodes()) {
    if (static_cast<int>(node.section) != section) {
      section = static_cast<int>(node.section);
      out += kSectionNames[static_cast<size_t>(section)];
      out += ":\n";
    }
    print_node(graph, node, out);
  }
  for (const Output& output : graph.outputs()) {
    out += "return " + plain_or_quoted(output.name) + '=' + value_ref(output.value);
    if (output.role != OutputRole::kOutput) {
      out += " role=";
      out += kOutputRoleNames[static_cast<size_t>(output.role)];
    }
    out += '\n';
  }
  return out;
}

}  // namespace trainrt
