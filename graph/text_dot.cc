#include "graph/attr_fields.h"
#include "graph/text.h"
#include "graph/text_names.h"

namespace trainrt {
namespace {

constexpr size_t kLabelLimit = 80;

// Graphviz strings: quotes and backslashes escaped, line breaks as \n.
std::string dot_string(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

std::string label(const Graph& graph, const Node& node) {
  std::string text(op_info(node.op).name);
  std::string attrs = to_string(node.attrs, /*full=*/false);
  if (attrs.size() > kLabelLimit) attrs = attrs.substr(0, kLabelLimit) + "...";
  if (!attrs.empty()) text += '\n' + attrs;
  const SourceRef& source = graph.source(node);
  if (!source.node.empty()) text += '\n' + source.node;
  return text;
}

std::string_view color(Section section) {
  switch (section) {
    case Section::kForward:
      return "#dbe9f6";
    case Section::kBackward:
      return "#fbe3d0";
    case Section::kUpdate:
      return "#dff0d8";
  }
  return "white";
}

}  // namespace

std::string print_dot(const Graph& graph) {
  std::string out = "digraph trainrt {\n  node [shape=box, style=filled, fontname=Helvetica];\n";
  for (int32_t i = 0; i < graph.node_count(); ++i) {
    const Node& node = graph.node(NodeId{i});
    out += "  n" + std::to_string(i) + " [label=" + dot_string(label(graph, node)) +
           ", fillcolor=\"" + std::string(color(node.section)) + "\"];\n";
    for (ValueId input : node.inputs) {
      out += "  n" + std::to_string(graph.value(input).producer.index) + " -> n" +
             std::to_string(i) + " [label=" + dot_string(to_string(graph.type(input))) + "];\n";
    }
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Output& output = graph.outputs()[i];
    const std::string id = "out" + std::to_string(i);
    out += "  " + id + " [label=" +
           dot_string(output.name + '\n' +
                      std::string(kOutputRoleNames[static_cast<size_t>(output.role)])) +
           ", shape=ellipse, fillcolor=white];\n  n" +
           std::to_string(graph.value(output.value).producer.index) + " -> " + id + ";\n";
  }
  return out + "}\n";
}

}  // namespace trainrt
