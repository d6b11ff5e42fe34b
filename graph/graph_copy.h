// Rebuilding a graph node by node: what passes share that change types, sections or whole nodes.
#ifndef TRAINRT_GRAPH_GRAPH_COPY_H_
#define TRAINRT_GRAPH_GRAPH_COPY_H_

#include <vector>

#include "graph/graph.h"

namespace trainrt {

/// A fresh graph beside an old one, and for each old value the fresh one that stands for it.
/// Starts with the old graph's sources; names and outputs are carried over. What is added, and in
/// which order, is up to the caller. The old graph must outlive the copy, up to finish().
class GraphCopy {
 public:
  explicit GraphCopy(const Graph& old);

  Graph& graph() { return fresh_; }
  const Graph& graph() const { return fresh_; }

  /// The fresh value that stands for an old one; an invalid id when there is none yet.
  ValueId mapped(ValueId old) const { return mapped_[static_cast<size_t>(old.index)]; }
  std::vector<ValueId> mapped(const std::vector<ValueId>& old) const;
  /// Lets `fresh` stand for `old`, whose name it takes unless it has one.
  void map(ValueId old, ValueId fresh);

  /// Appends `node`, whose inputs are fresh values and whose outputs are the old values that its
  /// results are like: their names, and their types unless others are given. Returns the results;
  /// they do not stand for the old values.
  std::vector<ValueId> add(Node node);
  std::vector<ValueId> add(Node node, std::vector<TensorType> types);
  /// As add(), and the results stand for the old values.
  void place(Node node);
  void place(Node node, std::vector<TensorType> types);
  /// Places an old node as it is, with what stands for its operands.
  void keep(const Node& node);

  /// The fresh graph, with the old outputs: what stands for their values, or the given fresh
  /// values in the same order. The copy is spent.
  Graph finish();
  Graph finish(const std::vector<ValueId>& outputs);

 private:
  std::vector<TensorType> types_of(const std::vector<ValueId>& old) const;

  const Graph& old_;
  Graph fresh_;
  std::vector<ValueId> mapped_;  // by ValueId of the old graph
};

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_GRAPH_COPY_H_
