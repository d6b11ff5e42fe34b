#include "graph/passes/passes.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "graph/text.h"
#include "graph/verify.h"
#include "tests/graph/every_op.h"

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

// Adds float32 and int64 tensors of one shape; anything else fails, as kernels do on bad contents.
std::vector<Tensor> evaluate(Op op, const Attrs&, std::span<const Tensor> in,
                             std::span<const TensorType> out) {
  if (op != Op::kAdd || in[0].shape() != in[1].shape()) {
    throw Error(ErrorCode::kRuntime, "not here");
  }
  Tensor result(out[0].dtype, out[0].shape);
  with_type(out[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < result.data<T>().size(); ++i) {
      result.data<T>()[i] = static_cast<T>(in[0].data<T>()[i] + in[1].data<T>()[i]);
    }
  });
  return {result};
}

constexpr char kInputs[] =
    "%x = Input() name=\"x\" shape=[2,3]\n"
    "%y = Input() name=\"y\" shape=[2,3]\n"
    "%i = Input() name=\"i\" dtype=int64 shape=[2,3]\n"
    "%c = Input() name=\"c\" dtype=bool shape=[2,3]\n"
    "%rng = Input() name=\"r\" role=rng dtype=int64 shape=[2]\n"
    "%p = Input() name=\"p\" role=parameter shape=[2,3]\n";

std::string with_inputs(const std::string& body) { return print(parse_graph(kInputs + body)); }

// The graph after passes, dead code removed so that what is left can be compared.
std::string after(std::unique_ptr<Pass> pass, const std::string& body, bool* changed) {
  Graph g = parse_graph(kInputs + body);
  *changed = pass->run(g);
  verify(g);
  make_dead_code_pass()->run(g);
  return print(g);
}

void becomes(std::unique_ptr<Pass> (*make)(), const std::string& body, const std::string& wanted) {
  INFO(body);
  bool changed = false;
  CHECK(after(make(), body, &changed) == with_inputs(wanted));
  CHECK(changed);
}

void stays(std::unique_ptr<Pass> (*make)(), const std::string& body) {
  INFO(body);
  Graph g = parse_graph(kInputs + body);
  CHECK_FALSE(make()->run(g));
  CHECK(print(g) == with_inputs(body));
}

std::unique_ptr<Pass> simplify() { return make_simplify_pass({}); }
std::unique_ptr<Pass> fold() { return make_fold_pass(evaluate); }

TEST_CASE("dead_code: removes what nobody needs") {
  becomes(make_dead_code_pass, "%a = Neg(%x)\n%b = Exp(%a)\n%d = Abs(%x)\nreturn o=%d",
          "%d = Abs(%x)\nreturn o=%d");
  becomes(make_dead_code_pass, "%a = Random(%rng) shape=[2]\n", "");
}

TEST_CASE("dead_code: keeps outputs, inputs and state updates") {
  stays(make_dead_code_pass, "");
  stays(make_dead_code_pass, "%a = Neg(%x)\nreturn o=%a");
  stays(make_dead_code_pass, "%a = Neg(%x)\n%b = Assign(%p, %a)");
  stays(make_dead_code_pass, "%a, %b = TopK(%x) axis=1\nreturn o=%b");
}

TEST_CASE("cse: merges equal nodes") {
  becomes(make_cse_pass, "%a = Neg(%x)\n%b = Neg(%x)\n%d = Add(%a, %b)\nreturn o=%d",
          "%a = Neg(%x)\n%d = Add(%a, %a)\nreturn o=%d");
  becomes(make_cse_pass, "%a = Neg(%x)\n%b = Neg(%x)\n%d = Exp(%a)\n%e = Exp(%b)\nreturn o=%d p=%e",
          "%a = Neg(%x)\n%d = Exp(%a)\nreturn o=%d p=%d");
  becomes(make_cse_pass, "%a = Fill() value=2\n%b = Fill() value=2\n%d = Add(%a, %b)\nreturn o=%d",
          "%a = Fill() value=2\n%d = Add(%a, %a)\nreturn o=%d");
  becomes(make_cse_pass, "%a = Neg(%x)\nbackward:\n%b = Neg(%x)\nreturn o=%a p=%b",
          "%a = Neg(%x)\nreturn o=%a p=%a");
  becomes(make_cse_pass, "%a, %b = TopK(%x)\n%d, %e = TopK(%x)\nreturn o=%b p=%e",
          "%a, %b = TopK(%x)\nreturn o=%b p=%b");
}

TEST_CASE("cse: keeps what differs") {
  stays(make_cse_pass, "%a = Neg(%x)\n%b = Neg(%y)\nreturn o=%a p=%b");
  stays(make_cse_pass, "%a = Softmax(%x)\n%b = Softmax(%x) axis=1\nreturn o=%a p=%b");
  stays(make_cse_pass, "%a = Sub(%x, %y)\n%b = Sub(%y, %x)\nreturn o=%a p=%b");
  stays(make_cse_pass, "%a = Fill()\n%b = Fill() value=-0\nreturn o=%a p=%b");
  stays(make_cse_pass, "%a = Dropout(%x, %rng)\n%b = Dropout(%x, %rng) stream=1\nreturn o=%a p=%b");
  stays(make_cse_pass, "backward:\n%a = Neg(%x)\nforward:\n%b = Neg(%x)\nreturn o=%a p=%b");
}

TEST_CASE("fold: computes nodes of constants") {
  becomes(fold,
          "%a = Constant() value=float32[2]{1,2}\n%b = Add(%a, %a)\n%d = Add(%b, %b)\nreturn o=%d",
          "%d = Constant() value=float32[2]{4,8}\nreturn o=%d");
  becomes(fold, "%a = Fill() shape=[2] value=3\n%b = Add(%a, %a)\nreturn o=%b",
          "%b = Constant() value=float32[2]{6,6}\nreturn o=%b");
}

TEST_CASE("fold: keeps what it cannot or must not compute") {
  stays(fold, "%a = Fill() shape=[2,3] value=3\n%b = Add(%a, %x)\nreturn o=%b");
  stays(fold, "%a = Fill() shape=[2,3] value=3\nreturn o=%a");
  stays(fold, "%a = Fill() value=3\n%b = Neg(%a)\nreturn o=%b");
  stays(fold, "%k = Constant() value=int64[2]{1,2}\n%a = Random(%k) shape=[2]\nreturn o=%a");
  stays(fold, "%a = Fill() shape=[100000000] value=3\n%b = Add(%a, %a)\nreturn o=%b");
  Graph g = parse_graph("%a = Fill() value=3\n%b = Add(%a, %a)");
  CHECK_FALSE(make_fold_pass({})->run(g));
}

TEST_CASE("simplify: neutral operands go") {
  becomes(simplify, "%z = Fill()\n%a = Add(%x, %z)\n%b = Exp(%a)\nreturn o=%b",
          "%b = Exp(%x)\nreturn o=%b");
  becomes(simplify, "%z = Fill() shape=[3]\n%a = Add(%z, %x)\n%b = Exp(%a)\nreturn o=%b",
          "%b = Exp(%x)\nreturn o=%b");
  becomes(simplify,
          "%z = Constant() value=float32[3]{1,1,1}\n%a = Mul(%x, %z)\n%b = Exp(%a)\nreturn o=%b",
          "%b = Exp(%x)\nreturn o=%b");
  becomes(simplify, "%z = Fill() value=1\n%a = Div(%x, %z)\n%b = Exp(%a)\nreturn o=%b",
          "%b = Exp(%x)\nreturn o=%b");
  becomes(simplify, "%z = Fill()\n%a = Sub(%x, %z)\n%b = Exp(%a)\nreturn o=%b",
          "%b = Exp(%x)\nreturn o=%b");
  becomes(simplify, "%z = Fill() dtype=bool value=1\n%a = And(%c, %z)\n%b = Not(%a)\nreturn o=%b",
          "%b = Not(%c)\nreturn o=%b");
}

TEST_CASE("simplify: keeps operands that matter") {
  stays(simplify, "%z = Fill() shape=[4,1,1]\n%a = Add(%x, %z)\nreturn o=%a");
  stays(simplify, "%z = Fill()\n%a = Sub(%z, %x)\nreturn o=%a");
  stays(simplify, "%z = Fill() value=1\n%a = Div(%z, %x)\nreturn o=%a");
  stays(simplify, "%z = Fill() value=2\n%a = Div(%x, %z)\nreturn o=%a");
  stays(simplify, "%z = Fill()\n%a = Mul(%x, %z)\nreturn o=%a");
  stays(simplify, "%z = Constant() value=float32[3]{0,0,1}\n%a = Add(%x, %z)\nreturn o=%a");
  stays(simplify, "%a = Sub(%x, %x)\nreturn o=%a");
}

TEST_CASE("simplify: transposes merge") {
  becomes(simplify,
          "%a = Transpose(%x) perm=[1,0]\n%b = Transpose(%a) perm=[1,0]\n%d = Exp(%b)\nreturn o=%d",
          "%d = Exp(%x)\nreturn o=%d");
  becomes(simplify,
          "%a = Reshape(%x) shape=[1,2,3]\n%b = Transpose(%a) perm=[1,2,0]\n"
          "%d = Transpose(%b) perm=[1,2,0]\nreturn o=%d",
          "%a = Reshape(%x) shape=[1,2,3]\n%d = Transpose(%a) perm=[2,0,1]\nreturn o=%d");
  stays(simplify, "%a = Transpose(%x) perm=[1,0]\nreturn o=%a");
}

TEST_CASE("simplify: reshapes and expands merge") {
  becomes(simplify, "%a = Reshape(%x) shape=[6]\n%b = Reshape(%a) shape=[3,2]\nreturn o=%b",
          "%b = Reshape(%x) shape=[3,2]\nreturn o=%b");
  becomes(simplify,
          "%a = Reshape(%x) shape=[6]\n%b = Reshape(%a) shape=[2,3]\n%d = Exp(%b)\nreturn o=%d",
          "%d = Exp(%x)\nreturn o=%d");
  becomes(simplify, "%a = Expand(%x) shape=[1,2,3]\n%b = Expand(%a) shape=[4,2,3]\nreturn o=%b",
          "%b = Expand(%x) shape=[4,2,3]\nreturn o=%b");
  stays(simplify, "%a = Reshape(%x) shape=[3,2]\nreturn o=%a");
  stays(simplify, "%a = Expand(%x) shape=[1,2,3]\nreturn o=%a");
}

TEST_CASE("simplify: moving a fill makes another fill") {
  becomes(simplify, "%a = Fill() value=2\n%b = Expand(%a) shape=[2,2]\nreturn o=%b",
          "%b = Fill() shape=[2,2] value=2\nreturn o=%b");
  becomes(simplify, "%a = Fill() shape=[2,3] value=2\n%b = Transpose(%a) perm=[1,0]\nreturn o=%b",
          "%b = Fill() shape=[3,2] value=2\nreturn o=%b");
}

TEST_CASE("simplify: identities go") {
  for (const char* body :
       {"%a = Identity(%x)", "%a = Reshape(%x) shape=[2,3]", "%a = Transpose(%x) perm=[0,1]",
        "%a = Expand(%x) shape=[2,3]", "%a = Slice(%x) starts=[0,0] steps=[1,1] sizes=[2,3]",
        "%a = Cast(%x)", "%a = Concat(%x)", "%a = Split(%x) axis=1 sizes=[3]",
        "%a = Pad(%x) before=[0,0] after=[0,0] value=1", "%a = ReduceSum(%x)", "%a = Clip(%x)"}) {
    becomes(simplify, std::string(body) + "\n%b = Exp(%a)\nreturn o=%b",
            "%b = Exp(%x)\nreturn o=%b");
  }
}

TEST_CASE("simplify: near identities stay") {
  for (const char* body :
       {"%a = Slice(%x) starts=[1,0] steps=[-1,1] sizes=[2,3]", "%a = Concat(%x, %y)",
        "%a = StopGradient(%x)", "%a = Clip(%x) lo=0", "%a = Pad(%x) before=[0,1] after=[0,-1]",
        "%a = Cast(%x) to=float64", "%a = Slice(%x) starts=[0,0] steps=[1,1] sizes=[2,2]"}) {
    stays(simplify, std::string(body) + "\nreturn o=%a");
  }
}

TEST_CASE("simplify: an output is never an input in disguise") {
  stays(simplify, "%a = Identity(%p)\nreturn o=%a");
  stays(simplify, "%z = Fill()\n%a = Add(%p, %z)\n%g = Neg(%x)\n%b = Assign(%p, %g)\nreturn o=%a");
}

TEST_CASE("simplify: double negation and repetition") {
  becomes(simplify, "%a = Neg(%x)\n%b = Neg(%a)\n%d = Exp(%b)\nreturn o=%d",
          "%d = Exp(%x)\nreturn o=%d");
  becomes(simplify, "%a = Not(%c)\n%b = Not(%a)\n%d = Where(%b, %x, %y)\nreturn o=%d",
          "%d = Where(%c, %x, %y)\nreturn o=%d");
  becomes(simplify, "%a = Relu(%x)\n%b = Relu(%a)\nreturn o=%b", "%b = Relu(%x)\nreturn o=%b");
  stays(simplify, "%a = Neg(%x)\n%b = Abs(%a)\n%d = Neg(%b)\nreturn o=%d");
  stays(simplify, "%a = Exp(%x)\n%b = Exp(%a)\nreturn o=%b");
}

TEST_CASE("simplify: casts merge when the first loses nothing") {
  becomes(simplify, "%a = Cast(%x) to=float64\n%b = Cast(%a)\n%d = Exp(%b)\nreturn o=%d",
          "%d = Exp(%x)\nreturn o=%d");
  becomes(simplify, "%a = Cast(%c) to=int64\n%b = Cast(%a)\nreturn o=%b",
          "%b = Cast(%c)\nreturn o=%b");
  stays(simplify, "%a = Cast(%x) to=int64\n%b = Cast(%a)\nreturn o=%b");
  stays(simplify, "%a = Cast(%i)\n%b = Cast(%a) to=int64\nreturn o=%b");
  stays(simplify, "%a = Cast(%i) to=int8\n%b = Cast(%a) to=int64\nreturn o=%b");
  stays(simplify, "%a = Cast(%i) to=bool\n%b = Cast(%a) to=int64\nreturn o=%b");
}

TEST_CASE("simplify: MatMul takes transposes of the last two axes") {
  becomes(simplify, "%t = Transpose(%y) perm=[1,0]\n%a = MatMul(%x, %t)\nreturn o=%a",
          "%a = MatMul(%x, %y) trans_b=true\nreturn o=%a");
  becomes(simplify, "%t = Transpose(%y) perm=[1,0]\n%a = MatMul(%t, %x)\nreturn o=%a",
          "%a = MatMul(%y, %x) trans_a=true\nreturn o=%a");
  becomes(
      simplify,
      "%t = Transpose(%y) perm=[1,0]\n%a = MatMul(%x, %t) trans_a=true trans_b=true\nreturn o=%a",
      "%a = MatMul(%x, %y) trans_a=true\nreturn o=%a");
  becomes(simplify, "%t = Transpose(%x) perm=[1,0]\n%a = MatMul(%t, %t) trans_a=true\nreturn o=%a",
          "%a = MatMul(%x, %x) trans_b=true\nreturn o=%a");
  stays(simplify,
        "%r = Reshape(%x) shape=[1,2,3]\n%t = Transpose(%r) perm=[1,0,2]\n"
        "%q = Transpose(%x) perm=[1,0]\n%s = Exp(%q)\n%a = MatMul(%t, %s)\nreturn o=%a");
}

TEST_CASE("simplify: reductions over ones are reshapes") {
  becomes(simplify,
          "%r = Reshape(%x) shape=[2,1,3]\n%a = ReduceSum(%r) axes=[1]\n%b = Exp(%a)\nreturn o=%b",
          "%b = Exp(%x)\nreturn o=%b");
  stays(simplify, "%a = ReduceMean(%x) axes=[0]\nreturn o=%a");
}

TEST_CASE("simplify: a decided Where is its branch") {
  becomes(simplify,
          "%t = Fill() dtype=bool value=1\n%a = Where(%t, %x, %y)\n%b = Exp(%a)\nreturn o=%b",
          "%b = Exp(%x)\nreturn o=%b");
  stays(simplify,
        "%t = Fill() dtype=bool value=1 shape=[4,1,1]\n%a = Where(%t, %x, %y)\nreturn o=%a");
}

TEST_CASE("passes: every op survives all of them") {
  Graph g = parse_graph(kEveryOp);
  Pipeline pipeline;
  pipeline.add(make_simplify_pass(evaluate));
  pipeline.add(make_fold_pass(evaluate));
  pipeline.add(make_cse_pass());
  pipeline.add(make_dead_code_pass());
  const auto timings = pipeline.run(g);
  CHECK(timings.size() == 4);
  verify(g);
  CHECK(g.outputs().size() == 4);
}

TEST_CASE("passes: sections, origins and names are carried over") {
  Graph g = parse_graph(
      "%x = Input() name=\"x\"\nbackward:\n%a = Identity(%x)\n%b = Exp(%a)\nreturn o=%b");
  const int32_t source = g.add_source({"n", "Exp", "", 13});
  g.node(NodeId{2}).source = source;
  g.value(ValueId{2}).name = "result";
  REQUIRE(simplify()->run(g));
  REQUIRE(g.node_count() == 2);
  CHECK(g.node(NodeId{1}).section == Section::kBackward);
  CHECK(g.source(g.node(NodeId{1})).node == "n");
  CHECK(g.value(ValueId{1}).name == "result");
}

struct BreakingPass final : Pass {
  std::string_view name() const override { return "breaking"; }
  bool run(Graph& graph) override {
    graph.value(ValueId{0}).type.shape = {9};
    return true;
  }
};

TEST_CASE("pipeline: verifies after each change and names the pass") {
  Graph g = parse_graph("%x = Input() name=\"x\"");
  Pipeline pipeline;
  pipeline.add(std::make_unique<BreakingPass>());
  CHECK_THROWS_WITH(pipeline.run(g), ContainsSubstring("breaking"));
  PipelineOptions options;
  options.verify = false;
  CHECK(pipeline.run(g, options)[0].changed);
}

TEST_CASE("pipeline: passes can be disabled by name, dumps are called") {
  Graph g = parse_graph("%x = Input() name=\"x\"\n%a = Neg(%x)");
  Pipeline pipeline;
  pipeline.add(make_dead_code_pass());
  pipeline.add(make_cse_pass());
  PipelineOptions options;
  options.disabled = {"dead_code"};
  std::vector<std::string> seen;
  options.after_each_pass = [&](std::string_view name, const Graph&) { seen.emplace_back(name); };
  pipeline.run(g, options);
  CHECK(seen == std::vector<std::string>{"cse"});
  CHECK(g.node_count() == 2);
  options.disabled = {"dead"};
  CHECK_THROWS_WITH(pipeline.run(g, options), ContainsSubstring("dead_code, cse"));
}

TEST_CASE("epilogue: bias and ReLU go into the product") {
  const std::string head =
      "%w = Input() name=\"w\" role=parameter shape=[3,4]\n"
      "%b = Input() name=\"b\" role=parameter shape=[4]\n";
  const auto turns = [&](const std::string& body, const std::string& wanted) {
    becomes(make_epilogue_pass, head + body, head + wanted);
  };
  const auto remains = [&](const std::string& body) { stays(make_epilogue_pass, head + body); };
  turns("%m = MatMul(%x, %w)\n%s = Add(%m, %b)\nreturn o=%s",
        "%s = MatMul(%x, %w, %b)\nreturn o=%s");
  turns("%m = MatMul(%x, %w)\n%s = Add(%b, %m)\n%r = Relu(%s)\nreturn o=%r",
        "%r = MatMul(%x, %w, %b) relu=true\nreturn o=%r");
  turns("%m = MatMul(%x, %w)\n%r = Relu(%m)\nreturn o=%r",
        "%r = MatMul(%x, %w) relu=true\nreturn o=%r");
  turns("%m = MatMul(%x, %w)\n%v = Reshape(%m) shape=[2,1,4]\n%s = Add(%v, %b)\nreturn o=%s",
        "%s1 = MatMul(%x, %w, %b)\n%s = Reshape(%s1) shape=[2,1,4]\nreturn o=%s");
  turns("%q = Reshape(%b) shape=[1,4]\n%m = MatMul(%x, %w)\n%s = Add(%m, %q)\nreturn o=%s",
        "%q = Reshape(%b) shape=[1,4]\n%v = Reshape(%q) shape=[4]\n%s = MatMul(%x, %w, %v)\n"
        "return o=%s");
  // Read by others, an output, a bias along another axis, a ReLU in between, another section.
  remains("%m = MatMul(%x, %w)\n%s = Add(%m, %b)\n%e = Exp(%m)\nreturn o=%s p=%e");
  remains("%m = MatMul(%x, %w)\n%s = Add(%m, %b)\nreturn o=%s p=%m");
  remains("%r = MatMul(%x, %w) relu=true\n%s = Add(%r, %b)\nreturn o=%s");
  remains("%q = Reshape(%b) shape=[4,1,1]\n%m = MatMul(%x, %w)\n%s = Add(%m, %q)\nreturn o=%s");
  remains("%m = MatMul(%x, %w)\nbackward:\n%s = Add(%m, %b)\nreturn o=%s");
}

TEST_CASE("epilogue: a ReLU goes into the convolution") {
  const std::string conv = " strides=[1,1] dilations=[1,1] pads_begin=[0,0] pads_end=[0,0]";
  const std::string head =
      "%i2 = Input() name=\"i2\" shape=[1,2,4,4]\n%k = Input() name=\"k\" shape=[3,2,3,3]\n";
  becomes(make_epilogue_pass, head + "%v = Conv(%i2, %k)" + conv + "\n%r = Relu(%v)\nreturn o=%r",
          head + "%r = Conv(%i2, %k)" + conv + " relu=true\nreturn o=%r");
  stays(make_epilogue_pass,
        head + "%v = Conv(%i2, %k)" + conv + "\n%r = Relu(%v)\nreturn o=%r p=%v");
}

std::unique_ptr<Pass> fuse() {
  return make_fuse_pass(
      [](const std::string& program, std::span<const TensorType>, std::span<const TensorType>) {
        return program.find("Sin") == std::string::npos;
      });
}

TEST_CASE("fuse: chains, shared values, numbers") {
  becomes(fuse, "%a = Neg(%x)\n%b = Exp(%a)\nreturn o=%b",
          "%b = Fused(%x) program=\"Neg($0); Exp(%0); return %1\"\nreturn o=%b");
  becomes(fuse,
          "%h = Fill() value=0.5\n%a = Mul(%x, %h)\n%b = Add(%a, %y)\n%d = Tanh(%a)\n"
          "return o=%b p=%d q=%a",
          "%a, %b, %d = Fused(%x, %y) "
          "program=\"Mul($0, 0.5); Add(%0, $1); Tanh(%0); return %0, %1, %2\"\n"
          "return o=%b p=%d q=%a");
  becomes(fuse, "%a = Less(%x, %y)\n%b = Where(%a, %x, %y)\nreturn o=%b",
          "%b = Fused(%x, %y) program=\"Less($0, $1); Where(%0, $0, $1); return %1\"\nreturn o=%b");
}

TEST_CASE("fuse: sums leave, and are not read inside") {
  becomes(fuse, "%a = Neg(%x)\n%b = ReduceSum(%a) axes=[1]\n%d = Exp(%b)\nreturn o=%d",
          "%b = Fused(%x) program=\"Neg($0); ReduceSum(%0) axes=[1]; return %1\"\n%d = Exp(%b)\n"
          "return o=%d");
  becomes(
      fuse,
      "%a = Exp(%x)\n%b = ReduceSum(%a) axes=[1] keepdims=true\n%d = Div(%a, %b)\n%e = Neg(%d)\n"
      "return o=%e",
      "%a, %b = Fused(%x) program=\"Exp($0); ReduceSum(%0) axes=[1] keepdims=true; return %0, "
      "%1\"\n%e = Fused(%a, %b) program=\"Div($0, $1); Neg(%0); return %1\"\nreturn o=%e");
}

TEST_CASE("fuse: no group around a node that reads and feeds it") {
  becomes(
      fuse,
      "%a = Exp(%x)\n%b = Neg(%a)\n%m = Softmax(%b)\n%d = Add(%m, %a)\n%e = Abs(%d)\nreturn o=%e",
      "%a, %b = Fused(%x) program=\"Exp($0); Neg(%0); return %0, %1\"\n%m = Softmax(%b)\n"
      "%e = Fused(%m, %a) program=\"Add($0, $1); Abs(%0); return %1\"\nreturn o=%e");
  // An early node moves down to its only reader.
  becomes(fuse, "%a = Exp(%x)\n%m = Softmax(%y)\n%d = Add(%m, %a)\nreturn o=%d",
          "%m = Softmax(%y)\n%d = Fused(%x, %m) program=\"Exp($0); Add($1, %0); return %1\"\n"
          "return o=%d");
}

TEST_CASE("fuse: other shapes are seen through views") {
  becomes(fuse, "%a = Neg(%x)\n%v = Reshape(%a) shape=[6]\n%b = Exp(%v)\nreturn o=%b",
          "%e = Fused(%x) program=\"Neg($0); Exp(%0); return %1\"\n%b = Reshape(%e) shape=[6]\n"
          "return o=%b");
  becomes(fuse,
          "%k = Input() name=\"k\" shape=[3]\n%a = Add(%x, %k)\n%v = Reshape(%a) shape=[1,6]\n"
          "%b = Exp(%v)\nreturn o=%b p=%a",
          "%k = Input() name=\"k\" shape=[3]\n"
          "%a, %e = Fused(%x, %k) program=\"Add($0, $1); Exp(%0); return %0, %1\"\n"
          "%b = Reshape(%e) shape=[1,6]\nreturn o=%b p=%a");
}

TEST_CASE("fuse: sections stay apart, state is read before it changes") {
  stays(fuse, "%a = Neg(%x)\nbackward:\n%b = Exp(%a)\nreturn o=%b");
  becomes(fuse, "%a = Neg(%p)\n%s = Softmax(%x)\n%u = Assign(%p, %s)\n%b = Exp(%a)\nreturn o=%b",
          "%s = Softmax(%x)\n%b = Fused(%p) program=\"Neg($0); Exp(%0); return %1\"\n"
          "%u = Assign(%p, %s)\nreturn o=%b");
  stays(fuse, "%a = Neg(%p)\n%s = Softmax(%a)\n%u = Assign(%p, %s)\n%b = Add(%a, %u)\nreturn o=%b");
}

TEST_CASE("fuse: a running sum does not keep its terms") {
  stays(fuse,
        "%a = Softmax(%x)\n%b = Softmax(%y)\n%s = Add(%a, %b)\n%d = Softmax(%b)\n"
        "%t = Add(%s, %d)\n%e = Softmax(%d)\n%u = Add(%t, %e)\nreturn o=%u");
}

TEST_CASE("fuse: what has no loop stays") {
  stays(fuse, "%a = Sin(%x)\n%b = Sin(%a)\nreturn o=%b");
  stays(fuse, "%a = Neg(%x)\n%b = Sin(%a)\n%d = Exp(%b)\nreturn o=%d");
  stays(fuse, "%a = Neg(%x)\nreturn o=%a");
}

RecomputeReport recomputed(const std::string& body, const std::string& wanted) {
  INFO(body);
  RecomputeReport report;
  Graph g = parse_graph(kInputs + body);
  RecomputeOptions options;
  options.cost = [](const Graph&, const Node& node) {
    return is_elementwise(node.op) && node.op != Op::kSin ? 1 : -1;
  };
  const bool changed = make_recompute_pass(options, &report)->run(g);
  verify(g);
  make_dead_code_pass()->run(g);
  CHECK(print(g) == with_inputs(wanted));
  CHECK(changed == (report.values > 0));
  return report;
}

TEST_CASE("recompute: cheap values are made again from what is kept anyway") {
  // silu: the gradient reads x, sigmoid(x) and dy; only x is kept.
  const std::string head =
      "%m = Softmax(%x)\n%s = Sigmoid(%m)\n%z = Mul(%m, %s)\n%t = Softmax(%z)\n";
  const RecomputeReport report =
      recomputed(head +
                     "backward:\n%d = SoftmaxGrad(%y, %t)\n%a = Mul(%d, %s)\n%b = Mul(%a, %m)\n"
                     "%e = Add(%b, %z)\nreturn o=%e",
                 head +
                     "backward:\n%d = SoftmaxGrad(%y, %t)\n%s2 = Sigmoid(%m)\n%a = Mul(%d, %s2)\n"
                     "%b = Mul(%a, %m)\n%z2 = Mul(%m, %s2)\n%e = Add(%b, %z2)\nreturn o=%e");
  CHECK(report.values == 2);
  CHECK(report.bytes == 48);
}

TEST_CASE("recompute: a smaller operand is kept instead") {
  const std::string head = "%m = ReduceMax(%x) axes=[0]\n%z = Add(%m, %p)\n%t = Softmax(%z)\n";
  const RecomputeReport report =
      recomputed(head + "backward:\n%a = Mul(%y, %z)\nreturn o=%a p=%t",
                 head + "backward:\n%z2 = Add(%m, %p)\n%a = Mul(%y, %z2)\nreturn o=%a p=%t");
  CHECK(report.bytes == 12);
}

TEST_CASE("recompute: nothing where nothing is gained") {
  for (const std::string body :
       {"%m = Softmax(%x)\n%z = Neg(%m)\nbackward:\n%a = Mul(%y, %z)\nreturn o=%a",
        "%m = Softmax(%x)\n%z = Sin(%m)\nbackward:\n%a = Mul(%m, %z)\nreturn o=%a",
        "%m = Softmax(%x)\n%z = Neg(%m)\nbackward:\n%a = Mul(%m, %z)\nreturn o=%a p=%z",
        // The state has changed by then.
        "%z = Neg(%p)\n%u = Assign(%p, %x)\nbackward:\n%a = Mul(%y, %z)\nreturn o=%a"}) {
    CHECK(recomputed(body, body).values == 0);
  }
}

}  // namespace
}  // namespace trainrt
