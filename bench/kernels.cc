// Times of single kernels: every CPU row that takes a node is a benchmark of its own, named
// NODE/ROW, so that the rows of one node stand side by side.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/infer.h"
#include "kernels/blocked_view.h"
#include "kernels/kernel.h"
#include "runtime/cost.h"
#include "runtime/threads.h"

namespace trainrt {
namespace {

constexpr std::align_val_t kAlignment{64};

/// A node with types, alone in a graph.
struct Case {
  std::string name;
  Graph graph;

  const Node& node() const { return graph.nodes().back(); }
  std::vector<TensorType> types(const std::vector<ValueId>& values) const {
    std::vector<TensorType> result;
    for (ValueId v : values) result.push_back(graph.type(v));
    return result;
  }
};

TensorType f32(Shape shape, Layout layout = Layout::kPlain) {
  return {DType::kFloat32, std::move(shape), layout};
}

Case make_case(std::string name, Op op, const Attrs& attrs, const std::vector<TensorType>& inputs) {
  Case c;
  c.name = std::move(name);
  std::vector<ValueId> operands;
  std::vector<TensorType> logical;
  bool blocked = false;
  for (const TensorType& type : inputs) {
    const InputAttrs input{"x" + std::to_string(operands.size()), InputRole::kData, type.dtype,
                           type.shape};
    operands.push_back(c.graph.node(c.graph.add_node(Op::kInput, {}, input, {type})).outputs[0]);
    blocked |= type.layout == Layout::kNChw16c;
    logical.push_back(type);
    logical.back().layout = Layout::kPlain;
  }
  std::vector<TensorType> outputs = infer_types(op, logical, attrs);
  for (TensorType& type : outputs) {
    if (blocked && type.shape.size() == 4 && op != Op::kConvWeightGrad) {
      type.layout = Layout::kNChw16c;
    }
  }
  c.graph.add_node(op, std::move(operands), attrs, std::move(outputs));
  return c;
}

class Bytes {
 public:
  explicit Bytes(size_t bytes)
      : data_(static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), kAlignment))) {}
  void* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// Positive numbers, which are variances too.
Bytes made_up(const TensorType& type) {
  Bytes bytes(type.bytes());
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(0.1f, 1.0f);
  if (type.dtype == DType::kFloat64) {
    std::generate_n(static_cast<double*>(bytes.data()), type.bytes() / sizeof(double),
                    [&] { return number(random); });
  } else {
    std::generate_n(static_cast<float*>(bytes.data()), type.bytes() / sizeof(float),
                    [&] { return number(random); });
  }
  return bytes;
}

void run(benchmark::State& state, const Case& c, const KernelRow& row) {
  const Node& node = c.node();
  const std::vector<TensorType> in = c.types(node.inputs), out = c.types(node.outputs);
  Scratch needed;
  const std::unique_ptr<Kernel> kernel = plan_row(row, {node.op, node.attrs, in, out}, needed);
  const Bytes scratch(needed.bytes);
  std::vector<Bytes> operands;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const TensorType& type : in) inputs.push_back(operands.emplace_back(made_up(type)).data());
  for (size_t k = 0; k < out.size(); ++k) {
    // Updates change their state in place: parameter, then the moments behind the scale.
    const size_t state_input = k == 0 ? 0 : k + 3;
    outputs.push_back(is_state_update(node.op) ? const_cast<void*>(inputs[state_input])
                                               : operands.emplace_back(out[k].bytes()).data());
  }
  const KernelArgs args{inputs.data(), outputs.data(), scratch.data()};
  for (auto _ : state) kernel->run(args);
  const auto runs = static_cast<int64_t>(state.iterations());
  if (const int64_t flops = node_flops(c.graph, node); flops > 0) {
    state.counters["flops"] =
        benchmark::Counter(static_cast<double>(flops * runs), benchmark::Counter::kIsRate);
  }
  state.SetBytesProcessed(runs * static_cast<int64_t>(node_bytes(c.graph, node)));
}

ConvAttrs conv(int64_t kernel, int64_t group, Shape result = {}) {
  const std::vector<int64_t> one = {1, 1}, pad = {kernel / 2, kernel / 2};
  return {one, one, pad, pad, group, std::move(result), false};
}

void add_products(std::vector<Case>& cases) {
  MatMulAttrs plain, transposed;
  transposed.trans_b = true;
  cases.push_back(make_case("matmul_1024x1024x256", Op::kMatMul, transposed,
                            {f32({1024, 256}), f32({1024, 256}), f32({1024})}));
  cases.push_back(
      make_case("matmul_512x512x512", Op::kMatMul, plain, {f32({512, 512}), f32({512, 512})}));
  cases.push_back(make_case("matmul_batch_32x128x128x64", Op::kMatMul, plain,
                            {f32({32, 128, 64}), f32({32, 64, 128})}));
}

void add_convolutions(std::vector<Case>& cases) {
  for (const Layout layout : {Layout::kPlain, Layout::kNChw16c}) {
    const std::string end = layout == Layout::kPlain ? "" : "_blocked";
    const auto all_passes = [&](const std::string& name, int64_t channels, int64_t size,
                                int64_t kernel, int64_t group) {
      const Shape x = {8, channels, size, size}, w = {channels, channels / group, kernel, kernel};
      cases.push_back(
          make_case(name + end, Op::kConv, conv(kernel, group), {f32(x, layout), f32(w)}));
      cases.push_back(make_case(name + "_data_grad" + end, Op::kConvDataGrad,
                                conv(kernel, group, x), {f32(x, layout), f32(w)}));
      cases.push_back(make_case(name + "_weight_grad" + end, Op::kConvWeightGrad,
                                conv(kernel, group, w), {f32(x, layout), f32(x, layout)}));
    };
    all_passes("conv3x3_64_at_56", 64, 56, 3, 1);
    all_passes("conv3x3_256_at_14", 256, 14, 3, 1);
    all_passes("conv1x1_128_at_28", 128, 28, 1, 1);
    all_passes("depthwise3x3_144_at_56", 144, 56, 3, 144);
  }
}

void add_norms(std::vector<Case>& cases) {
  for (const Layout layout : {Layout::kPlain, Layout::kNChw16c}) {
    const std::string end = layout == Layout::kPlain ? "" : "_blocked";
    const TensorType x = f32({8, 64, 56, 56}, layout), c = f32({64});
    NormAttrs attrs;
    attrs.activation = Activation::kRelu;
    cases.push_back(make_case("batch_norm_relu" + end, Op::kBatchNorm, attrs, {x, c, c}));
    cases.push_back(
        make_case("batch_norm_relu_grad" + end, Op::kBatchNormGrad, attrs, {x, x, c, c, c, c}));
  }
  const TensorType x = f32({8, 128, 256}), row = f32({256}), statistic = f32({8, 128, 1});
  NormAttrs attrs;
  attrs.axis = 2;
  cases.push_back(make_case("layer_norm", Op::kLayerNorm, attrs, {x, row, row}));
  cases.push_back(
      make_case("layer_norm_grad", Op::kLayerNormGrad, attrs, {x, x, statistic, statistic, row}));
}

void add_attention(std::vector<Case>& cases) {
  AttentionAttrs attrs;
  attrs.scale = 0.125;
  attrs.causal = attrs.token_major = attrs.packed = true;
  const TensorType qkv = f32({8, 128, 3, 4, 64}), y = f32({8, 128, 4, 64}), logs = f32({8, 4, 128});
  cases.push_back(make_case("attention", Op::kAttention, attrs, {qkv}));
  cases.push_back(make_case("attention_grad", Op::kAttentionGrad, attrs, {y, qkv, y, logs}));
}

void add_elementwise(std::vector<Case>& cases) {
  const TensorType x = f32({1024, 1024});
  cases.push_back(make_case("add", Op::kAdd, NoAttrs{}, {x, x}));
  cases.push_back(make_case("gelu", Op::kGelu, GeluAttrs{}, {x}));
  cases.push_back(make_case(
      "fused_scale_add_tanh_sum", Op::kFused,
      FusedAttrs{"Mul($0, $1); Add(%0, $2); Tanh(%1); ReduceSum(%2) axes=[0]; return %2, %3"},
      {x, x, f32({1024})}));
}

void add_updates(std::vector<Case>& cases) {
  const TensorType p = f32({1024, 1024}), hyper{DType::kFloat64, {2}, Layout::kPlain};
  OptimizerAttrs attrs;
  attrs.kind = OptimizerKind::kSgd;
  cases.push_back(make_case("sgd", Op::kOptimizerUpdate, attrs, {p, p, hyper, f32({})}));
  attrs.kind = OptimizerKind::kAdamW;
  cases.push_back(make_case("adamw", Op::kOptimizerUpdate, attrs, {p, p, hyper, f32({}), p, p}));
}

void register_all() {
  std::vector<Case> cases;
  add_products(cases);
  add_convolutions(cases);
  add_norms(cases);
  add_attention(cases);
  add_elementwise(cases);
  add_updates(cases);
  for (Case& made : cases) {
    const auto c = std::make_shared<const Case>(std::move(made));
    const Node& node = c->node();
    const std::vector<TensorType> in = c->types(node.inputs), out = c->types(node.outputs);
    std::set<std::string_view> names;  // rows that differ in what they may overwrite share one
    for (const KernelRow& row : cpu_kernels()) {
      if (row.op != node.op || !row_support(row, {node.op, node.attrs, in, out}).ok) continue;
      if (!names.insert(row.name).second) continue;
      benchmark::RegisterBenchmark((c->name + "/" + std::string(row.name)).c_str(),
                                   [c, &row](benchmark::State& state) { run(state, *c, row); })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace
}  // namespace trainrt

int main(int argc, char** argv) {
  trainrt::restart_with_short_spin(argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  trainrt::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
