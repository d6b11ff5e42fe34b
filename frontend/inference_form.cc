#include "frontend/inference_form.h"

#include <onnx/onnx_pb.h>

#include <set>
#include <string>

namespace trainrt {
namespace {

using Names = std::set<std::string>;

bool is_default_domain(const onnx::NodeProto& node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

template <typename Nodes>
void collect_reads(const Nodes& nodes, Names& reads) {
  for (const onnx::NodeProto& node : nodes) {
    reads.insert(node.input().begin(), node.input().end());
    for (const onnx::AttributeProto& a : node.attribute()) {
      auto visit = [&](const onnx::GraphProto& g) {
        collect_reads(g.node(), reads);
        for (const onnx::ValueInfoProto& output : g.output()) reads.insert(output.name());
      };
      if (a.has_g()) visit(a.g());
      for (const onnx::GraphProto& g : a.graphs()) visit(g);
    }
  }
}

void convert_batch_norm(onnx::NodeProto& node, const Names& reads, Names& dropped) {
  for (int i = 1; i < node.output_size(); ++i) {
    if (!node.output(i).empty() && reads.contains(node.output(i))) return;
  }
  while (node.output_size() > 1) {
    dropped.insert(node.output(node.output_size() - 1));
    node.mutable_output()->RemoveLast();
  }
  for (int i = node.attribute_size(); i-- > 0;) {
    if (node.attribute(i).name() == "training_mode") node.mutable_attribute()->DeleteSubrange(i, 1);
  }
}

template <typename Nodes>
void convert_nodes(Nodes* nodes, const Names& reads, Names& dropped) {
  for (onnx::NodeProto& node : *nodes) {
    if (is_default_domain(node) && node.op_type() == "BatchNormalization") {
      convert_batch_norm(node, reads, dropped);
    } else if (is_default_domain(node) && node.op_type() == "Dropout") {
      while (node.input_size() > 2) node.mutable_input()->RemoveLast();
    }
    for (onnx::AttributeProto& a : *node.mutable_attribute()) {
      if (a.has_g()) convert_nodes(a.mutable_g()->mutable_node(), reads, dropped);
      for (onnx::GraphProto& g : *a.mutable_graphs()) {
        convert_nodes(g.mutable_node(), reads, dropped);
      }
    }
  }
}

}  // namespace

void to_inference_form(onnx::ModelProto& model) {
  onnx::GraphProto* graph = model.mutable_graph();
  Names reads, dropped;
  collect_reads(graph->node(), reads);
  for (const onnx::ValueInfoProto& output : graph->output()) reads.insert(output.name());
  convert_nodes(graph->mutable_node(), reads, dropped);
  for (int i = graph->value_info_size(); i-- > 0;) {
    if (dropped.contains(graph->value_info(i).name())) {
      graph->mutable_value_info()->DeleteSubrange(i, 1);
    }
  }
  for (onnx::FunctionProto& function : *model.mutable_functions()) {
    Names inner(function.output().begin(), function.output().end()), unused;
    collect_reads(function.node(), inner);
    convert_nodes(function.mutable_node(), inner, unused);
  }
}

}  // namespace trainrt
