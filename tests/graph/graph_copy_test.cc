#include "graph/graph_copy.h"

#include <catch2/catch_test_macros.hpp>

#include "graph/text.h"
#include "graph/verify.h"

namespace trainrt {
namespace {

Graph example() {
  Graph g = parse_graph(
      "%x = Input() name=\"x\" shape=[2,3]\n%a = Neg(%x)\n%b = Exp(%a)\nreturn o=%b p=%a");
  g.value(ValueId{1}).name = "a";
  g.value(ValueId{2}).name = "b";
  g.node(NodeId{2}).source = g.add_source({"n", "Exp", "", 13});
  return g;
}

TEST_CASE("graph_copy: what is kept comes out as it was") {
  const Graph old = example();
  GraphCopy copy(old);
  CHECK_FALSE(copy.mapped(ValueId{0}));
  for (const Node& node : old.nodes()) copy.keep(node);
  CHECK(copy.mapped(ValueId{2}));
  const Graph fresh = copy.finish();
  verify(fresh);
  CHECK(print(fresh) == print(old));
  CHECK(fresh.value(ValueId{2}).name == "b");
  CHECK(fresh.source(fresh.node(NodeId{2})).node == "n");
}

TEST_CASE("graph_copy: placed nodes stand for the old values, added ones do not") {
  const Graph old = example();
  GraphCopy copy(old);
  copy.keep(old.node(NodeId{0}));
  Node neg = old.node(NodeId{1});
  neg.inputs = copy.mapped(neg.inputs);
  const ValueId beside = copy.add(neg)[0];
  CHECK_FALSE(copy.mapped(ValueId{1}));
  CHECK(copy.graph().value(beside).name == "a");
  CHECK(copy.graph().type(beside) == old.type(ValueId{1}));

  neg.op = Op::kAbs;
  neg.section = Section::kForward;
  copy.place(neg);
  CHECK(copy.mapped(ValueId{1}) != beside);
  Node exp = old.node(NodeId{2});
  exp.op = Op::kCast;
  exp.attrs = CastAttrs{DType::kFloat64};
  exp.inputs = {beside};
  copy.place(exp, {{DType::kFloat64, {2, 3}}});
  const Graph fresh = copy.finish({copy.mapped(ValueId{2}), beside});
  verify(fresh);
  CHECK(fresh.producer(copy.mapped(ValueId{1})).op == Op::kAbs);
  CHECK(fresh.type(fresh.outputs()[0].value).dtype == DType::kFloat64);
  CHECK(fresh.outputs()[0].name == "o");
  CHECK(fresh.outputs()[1].value == beside);
}

TEST_CASE("graph_copy: a value that stands for another keeps a name of its own") {
  const Graph old = example();
  GraphCopy copy(old);
  for (int32_t i : {0, 1}) copy.keep(old.node(NodeId{i}));
  copy.map(ValueId{2}, copy.mapped(ValueId{1}));
  CHECK(copy.graph().value(copy.mapped(ValueId{2})).name == "a");
  copy.map(ValueId{2}, copy.mapped(ValueId{0}));
  CHECK(copy.graph().value(copy.mapped(ValueId{2})).name == "b");
  CHECK(copy.finish().outputs()[0].value == ValueId{0});
}

}  // namespace
}  // namespace trainrt
