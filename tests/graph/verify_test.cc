#include "graph/verify.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "graph/text.h"
#include "tests/graph/every_op.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

void broken(const Graph& graph, const char* message) {
  try {
    verify(graph);
    FAIL("accepted:\n" << print(graph));
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kInternal);
    CHECK_THAT(e.what(), ContainsSubstring(message));
  }
}

void broken(const char* text, const char* message) { broken(parse_graph(text), message); }

TEST_CASE("verify: sound graphs pass") {
  verify(Graph());
  verify(parse_graph(kEveryOp));
}

TEST_CASE("verify: a wrong type is found, and the node is shown") {
  broken("%x = Input() name=\"x\" shape=[2]\n%y:float32[3] = Neg(%x)", "inferred float32[2]");
  broken("%x = Input() name=\"x\" shape=[2]\n%y:float32[3] = Neg(%x)", "= Neg(");
  broken("%x = Input() name=\"x\" shape=[2]\n%y:float32[2] = Not(%x)", "must be bool");
}

TEST_CASE("verify: too many outputs") {
  broken("%x = Input() name=\"x\"\n%y:float32[], %z:float32[] = Neg(%x)", "2 outputs");
}

TEST_CASE("verify: wrong number of operands") {
  broken("%x = Input() name=\"x\"\n%y:float32[] = Add(%x)", "operands");
}

TEST_CASE("verify: attributes of another op") {
  Graph g = parse_graph("%x = Input() name=\"x\"\n%y = Neg(%x)");
  g.node(NodeId{1}).attrs = AxisAttrs{};
  broken(g, "another op");
}

TEST_CASE("verify: operands come from earlier nodes") {
  Graph g = parse_graph("%x = Input() name=\"x\"\n%y = Neg(%x)\n%z = Neg(%y)");
  g.node(NodeId{1}).inputs[0] = ValueId{2};
  broken(g, "before it is produced");
  g.node(NodeId{1}).inputs[0] = ValueId{7};
  broken(g, "does not exist");
  g.node(NodeId{1}).inputs[0] = ValueId{};
  broken(g, "does not exist");
}

TEST_CASE("verify: a value belongs to its producer") {
  Graph g = parse_graph("%x = Input() name=\"x\"\n%y = Neg(%x)");
  g.value(ValueId{1}).producer = NodeId{0};
  broken(g, "does not belong");
  g.value(ValueId{1}).producer = NodeId{9};
  broken(g, "does not belong");
}

TEST_CASE("verify: outputs exist") {
  Graph g = parse_graph("%x = Input() name=\"x\"");
  g.add_output("y", ValueId{4});
  broken(g, "output 'y'");
}

TEST_CASE("verify: a section reads no later one") {
  broken("backward:\n%x = Input() name=\"x\"\nforward:\n%y = Neg(%x)", "later section");
  verify(parse_graph("forward:\n%x = Input() name=\"x\"\nupdate:\n%y = Neg(%x)"));
}

TEST_CASE("verify: sources exist") {
  Graph g = parse_graph("%x = Input() name=\"x\"");
  g.node(NodeId{0}).source = 3;
  broken(g, "source");
}

TEST_CASE("verify: input names are unique within a role") {
  broken("%x = Input() name=\"x\"\n%y = Input() name=\"x\"", "are called 'x'");
  verify(parse_graph("%x = Input() name=\"x\"\n%y = Input() name=\"x\" role=gradient"));
}

constexpr char kState[] =
    "%p = Input() name=\"p\" role=parameter shape=[2]\n%g = Input() name=\"g\" shape=[2]\n";

TEST_CASE("verify: only state can be updated") {
  broken((kState + std::string("%q = Neg(%p)\n%r = Assign(%q, %g)")).c_str(), "no parameter");
  broken((kState + std::string("%r = Assign(%g, %p)")).c_str(), "no parameter");
  verify(parse_graph(kState + std::string("%r = Assign(%p, %g)")));
}

TEST_CASE("verify: state is updated once") {
  broken((kState + std::string("%a = Assign(%p, %g)\n%b = Assign(%p, %g)")).c_str(),
         "already changed");
}

TEST_CASE("verify: nobody reads a state after its update") {
  broken((kState + std::string("%a = Assign(%p, %g)\n%b = Neg(%p)")).c_str(), "already changed");
  broken((kState + std::string("%v = Reshape(%p) shape=[1,2]\n%a = Assign(%p, %g)\n%b = Neg(%v)"))
             .c_str(),
         "already changed");
  verify(parse_graph(kState + std::string("%b = Neg(%p)\n%a = Assign(%p, %g)\n%c = Neg(%a)")));
}

TEST_CASE("verify: slots of an optimizer are state as well") {
  const std::string head = std::string(kState) +
                           "%h = Input() name=\"h\" role=hyper dtype=float64 shape=[2]\n"
                           "%s = Fill() value=1\n"
                           "%m = Input() name=\"m\" role=optimizer_state shape=[2]\n";
  const std::string update = "%a, %b = OptimizerUpdate(%p, %g, %h, %s, %m) kind=momentum\n";
  verify(parse_graph(head + update));
  broken((head + update + "%c = Neg(%m)").c_str(), "already changed");
  broken((head + "%a, %b = OptimizerUpdate(%p, %g, %h, %s, %g) kind=momentum\n").c_str(),
         "no parameter");
}

}  // namespace
}  // namespace trainrt
