// CPU rows on float32 values that are kept as bfloat16.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/bfloat16.h"
#include "tests/kernels/cpu/row_check.h"

namespace trainrt {
namespace {

/// Every choice of bfloat16 among the first `inputs` inputs and `outputs` outputs.
void check_mixtures(RowCase c, uint32_t inputs, uint32_t outputs, Tolerance tolerance = kClose) {
  for (c.bf16_inputs = 0; c.bf16_inputs < 1u << inputs; ++c.bf16_inputs) {
    for (c.bf16_outputs = 0; c.bf16_outputs < 1u << outputs; ++c.bf16_outputs) {
      check_rows(c, tolerance);
    }
  }
}

bool no_products() {
  if (cpu_runs_bf16()) return false;
  WARN("this processor has no bfloat16 products: their rows refuse");
  return true;
}

TEST_CASE("bf16: rounding is that of Tensor::to") {
  std::vector<float> values = {0.0f, -0.0f, 1.0f, 1.00390625f, 1.01171875f, 3e38f, 3.4e38f, 1e-40f};
  values.push_back(std::numeric_limits<float>::infinity());
  for (int i = 0; i < 1000; ++i) values.push_back(std::sin(static_cast<float>(i)) * 1e3f);
  const auto n = static_cast<int64_t>(values.size());
  const Tensor wide = Tensor::from<float>(values, {n}), narrow = wide.to(DType::kBFloat16);
  for (int64_t count : {n, int64_t{1}, int64_t{17}}) {
    std::vector<uint16_t> half(values.size());
    std::vector<float> back(values.size());
    to_bf16(values.data(), half.data(), count);
    from_bf16(half.data(), back.data(), count);
    CHECK(std::memcmp(half.data(), narrow.raw(), 2 * static_cast<size_t>(count)) == 0);
    CHECK(std::memcmp(back.data(), narrow.to(DType::kFloat32).raw(),
                      4 * static_cast<size_t>(count)) == 0);
  }
  const float nans[] = {std::nanf(""), -std::nanf("1")};
  uint16_t half[2];
  float back[2];
  to_bf16(nans, half, 2);
  from_bf16(half, back, 2);
  CHECK(std::isnan(back[0]));
  CHECK(std::isnan(back[1]));
}

TEST_CASE("bf16: reorders change the type, the layout or both") {
  for (const Shape& shape : {Shape{3}, Shape{40000}, Shape{5, 7, 3, 2, 2}}) {
    check_rows({Op::kReorder, {shape}, LayoutAttrs{}, 0, 0, 0, 1}, kExact);
    check_rows({Op::kReorder, {shape}, LayoutAttrs{}, 0, 0, 1, 0}, kExact);
  }
  for (const Shape& shape : {Shape{2, 32, 5, 7}, Shape{2, 19, 3, 3}}) {
    for (uint32_t in : {0u, 1u}) {
      for (uint32_t out : {0u, 1u}) {
        check_rows({Op::kReorder, {shape}, LayoutAttrs{Layout::kNChw16c}, 0, 1, in, out}, kExact);
        check_rows({Op::kReorder, {shape}, LayoutAttrs{Layout::kPlain}, 1, 0, in, out}, kExact);
      }
    }
    check_rows({Op::kReorder, {shape}, LayoutAttrs{Layout::kNChw16c}, 1, 1, 0, 1}, kExact);
  }
}

TEST_CASE("bf16: products") {
  if (no_products()) return;
  for (uint32_t out : {0u, 1u}) {
    for (const bool relu : {false, true}) {
      MatMulAttrs attrs;
      attrs.relu = relu;
      check_rows({Op::kMatMul, {Shape{70, 33}, Shape{33, 50}}, attrs, 0, 0, 3, out}, kClose);
      check_rows({Op::kMatMul, {Shape{4, 20, 64}, Shape{64, 48}, Shape{48}}, attrs, 0, 0, 3, out},
                 kClose);
      attrs.trans_b = true;
      check_rows({Op::kMatMul, {Shape{2, 3, 9, 16}, Shape{2, 3, 5, 16}}, attrs, 0, 0, 3, out},
                 kClose);
      attrs.trans_a = true;
      check_rows({Op::kMatMul, {Shape{33, 70}, Shape{50, 33}}, attrs, 0, 0, 3, out}, kClose);
    }
  }
  RowCase mixed{Op::kMatMul, {Shape{8, 8}, Shape{8, 8}}, MatMulAttrs{}};
  mixed.bf16_inputs = 1;
  CHECK(refusals(mixed).back() == "multiplies operands of one type");
  mixed.bf16_inputs = 0;
  mixed.bf16_outputs = 1;
  CHECK(refusals(mixed).back() == "gives bfloat16 for bfloat16 only");
}

TEST_CASE("bf16: products of a size for the tile unit") {
  if (no_products()) return;
  // Tails in every dim, more inner dims than a block has, more lines than one has (the last case,
  // to bfloat16), more rows than columns and fewer.
  struct Row {
    int64_t m, n, k;
  };
  for (const Row& r : {Row{520, 401, 199}, Row{145, 470, 1100}, Row{390, 370, 2049}}) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        const Shape a = trans_a ? Shape{r.k, r.m} : Shape{r.m, r.k},
                    b = trans_b ? Shape{r.n, r.k} : Shape{r.k, r.n};
        for (const uint32_t out : {0u, 1u}) {
          RowCase c{Op::kMatMul, {a, b}, MatMulAttrs{trans_a, trans_b}, 0, 0, 3, out};
          const std::string tiles = refusals(c).front();
          CHECK((tiles.empty() || tiles == "this processor has no tile unit (AMX-BF16)"));
          check_rows(c, kClose);
          c.inputs.emplace_back(Shape{r.n});
          c.attrs = MatMulAttrs{trans_a, trans_b, true};
          check_rows(c, kClose);
        }
      }
    }
  }
  // What is not a number stays so, and comes out where it belongs.
  Tensor x(DType::kFloat32, {256, 512});
  x.data<float>()[3] = std::numeric_limits<float>::infinity();
  x.data<float>()[512 * 40 + 7] = std::nanf("");
  check_rows({Op::kMatMul, {Operand(x), Operand({512, 256}, 1, 2)}, MatMulAttrs{}, 0, 0, 3, 0},
             kClose);
}

TEST_CASE("bf16: convolutions") {
  if (no_products()) return;
  ConvAttrs attrs;
  attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {1, 1};
  for (const int64_t stride : {1, 2}) {
    attrs.strides = {stride, stride};
    for (const int64_t group : {1, 32}) {
      attrs.group = group;
      const int64_t out = (12 - 1) / stride + 1;
      const Shape x = {2, 32, 12, 12}, w = {32, 32 / group, 3, 3}, y = {2, 32, out, out};
      ConvAttrs grad = attrs;
      for (const uint32_t blocked : {0u, 1u}) {
        std::vector<RowCase> cases = {{Op::kConv, {x, w}, attrs, blocked, blocked, 3, 0}};
        grad.shape = x;
        cases.push_back({Op::kConvDataGrad, {y, w}, grad, blocked, blocked, 3, 0});
        grad.shape = w;
        cases.push_back({Op::kConvWeightGrad, {x, y}, grad, blocked ? 3u : 0u, 0, 3, 0});
        for (RowCase& c : cases) {
          // Where no row takes a case (AMX and groups in nChw16c), values are float32.
          for (c.bf16_outputs = 0; c.bf16_outputs < 2; ++c.bf16_outputs) {
            const auto reasons = refusals(c);
            const bool taken = std::count(reasons.begin(), reasons.end(), "") > 0;
            if (taken) check_rows(c, kClose);
          }
          c.bf16_outputs = 0;
        }
        CHECK((blocked == 1 || group == 32 || refusals(cases[0]).back().empty()));
      }
    }
  }
}

TEST_CASE("bf16: convolutions by the tile unit") {
  if (no_products()) return;
  struct Row {
    Shape x;
    int64_t filters;
    Shape kernel, stride, dilation, begin, end;
  };
  // Channels that fill no tile, rows that fill none or more than one, steps and dilations alone and
  // together, pads on one side, more pad than filter, images in several windows and several packed
  // at once, pixels that no filter reaches.
  const Row rows[] = {
      {{2, 32, 12, 12}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {{3, 19, 9, 37}, 45, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {{1, 40, 70, 6}, 17, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
      {{2, 16, 15, 14}, 70, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}},
      {{2, 33, 14, 13}, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {{2, 20, 17, 20}, 24, {5, 3}, {3, 2}, {1, 2}, {2, 0}, {0, 3}},
      {{2, 18, 11, 12}, 16, {3, 4}, {1, 3}, {2, 3}, {3, 5}, {4, 1}},
      {{1, 16, 5, 5}, 16, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}},
      {{2, 16, 4, 4}, 16, {2, 2}, {1, 1}, {1, 1}, {3, 2}, {2, 3}},
      {{2, 16, 15, 14}, 40, {3, 5}, {2, 2}, {1, 1}, {1, 2}, {1, 2}},
      {{3, 40, 13, 18}, 16, {3, 4}, {1, 2}, {2, 2}, {1, 3}, {2, 2}},
      {{2, 9, 13, 18}, 11, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}},
      {{3, 130, 7, 7}, 270, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {{2, 64, 60, 100}, 96, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {{2, 64, 61, 99}, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {{2, 64, 91, 130}, 80, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
  };
  for (const Row& r : rows) {
    const auto dim = [&](size_t d) {
      return (r.x[d + 2] + r.begin[d] + r.end[d] - (r.kernel[d] - 1) * r.dilation[d] - 1) /
                 r.stride[d] +
             1;
    };
    const Shape w = {r.filters, r.x[1], r.kernel[0], r.kernel[1]},
                y = {r.x[0], r.filters, dim(0), dim(1)};
    ConvAttrs attrs;
    attrs.strides = r.stride;
    attrs.dilations = r.dilation;
    attrs.pads_begin = r.begin;
    attrs.pads_end = r.end;
    ConvAttrs relu = attrs, data = attrs, weight = attrs;
    relu.relu = true;
    data.shape = r.x;
    weight.shape = w;
    std::vector<RowCase> cases;
    for (const uint32_t out : {0u, 1u}) {
      cases.push_back({Op::kConv, {r.x, w}, attrs, 1, 1, 3, out});
      cases.push_back({Op::kConv, {r.x, w, Shape{r.filters}}, relu, 1, 1, 3, out});
      cases.push_back({Op::kConvDataGrad, {y, w}, data, 1, 1, 3, out});
    }
    cases.push_back({Op::kConvWeightGrad, {r.x, y}, weight, 3, 0, 3, 0});
    for (const RowCase& c : cases) {
      const auto reasons = refusals(c);
      const auto has = [&](const char* reason) {
        return std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
      };
      CHECK((has("") || has("this processor has no tile unit (AMX-BF16)")));
      if (has("")) check_rows(c, kClose);
    }
  }
}

TEST_CASE("bf16: first layers by the tile unit") {
  if (no_products()) return;
  struct Row {
    Shape x;
    int64_t filters, kernel, stride, dilation, pad;
  };
  for (const Row& r : {Row{{2, 3, 30, 33}, 20, 7, 2, 1, 3}, Row{{3, 3, 17, 16}, 32, 3, 1, 1, 1},
                       Row{{2, 4, 20, 9}, 16, 5, 3, 2, 4}, Row{{1, 2, 9, 9}, 17, 4, 1, 1, 0},
                       Row{{4, 1, 28, 28}, 16, 5, 1, 1, 2}, Row{{2, 1, 40, 35}, 16, 11, 2, 3, 9}}) {
    const auto dim = [&](int64_t n) {
      return (n + 2 * r.pad - (r.kernel - 1) * r.dilation - 1) / r.stride + 1;
    };
    const Shape w = {r.filters, r.x[1], r.kernel, r.kernel},
                y = {r.x[0], r.filters, dim(r.x[2]), dim(r.x[3])};
    ConvAttrs attrs;
    attrs.strides = {r.stride, r.stride};
    attrs.dilations = {r.dilation, r.dilation};
    attrs.pads_begin = attrs.pads_end = {r.pad, r.pad};
    ConvAttrs relu = attrs, weight = attrs;
    relu.relu = true;
    weight.shape = w;
    for (const RowCase& c : {RowCase{Op::kConv, {r.x, w}, attrs, 0, 1, 3, 1},
                             RowCase{Op::kConv, {r.x, w, Shape{r.filters}}, relu, 0, 1, 3, 0},
                             RowCase{Op::kConvWeightGrad, {r.x, y}, weight, 2, 0, 3, 0}}) {
      const auto reasons = refusals(c);
      if (std::find(reasons.begin(), reasons.end(), "") != reasons.end()) {
        check_rows(c, kClose);
      } else {
        CHECK(std::find(reasons.begin(), reasons.end(),
                        "this processor has no tile unit (AMX-BF16)") != reasons.end());
      }
    }
  }
}

TEST_CASE("bf16: sums of blocks") {
  for (const Op op : {Op::kAdd, Op::kMul}) {
    check_mixtures({op, {Shape{3, 7000}, Shape{3, 7000}}}, 2, 1);
    check_both_types({op, {Shape{2, 32, 5, 7}, Shape{2, 32, 5, 7}}, NoAttrs{}, 3, 1}, kClose);
  }
  RowCase broadcast{Op::kAdd, {Shape{4, 8}, Shape{8}}};
  broadcast.bf16_inputs = 1;
  CHECK(refusals(broadcast) == std::vector<std::string>{"broadcasts no bfloat16"});
}

TEST_CASE("bf16: activations") {
  for (const Shape& shape : {Shape{7}, Shape{3, 5000}}) {
    for (bool tanh : {false, true}) {
      check_mixtures({Op::kGelu, {shape}, GeluAttrs{tanh}}, 1, 1);
      check_mixtures({Op::kGeluGrad, {shape, shape}, GeluAttrs{tanh}}, 2, 1);
    }
    check_mixtures({Op::kSilu, {shape}}, 1, 1);
    check_mixtures({Op::kSiluGrad, {shape, shape}}, 2, 1);
  }
}

TEST_CASE("bf16: norms") {
  NormAttrs attrs;
  attrs.axis = 1;
  attrs.epsilon = 1e-5;
  const Operand rsd({200, 1}, 0.5, 2.0);
  for (int64_t size : {33, 256}) {
    const Shape x = {200, size}, row = {size};
    check_mixtures({Op::kLayerNorm, {x, row, row}, attrs}, 1, 1);
    check_mixtures({Op::kLayerNormGrad, {x, x, Shape{200, 1}, rsd, row}, attrs}, 2, 1);
    check_mixtures({Op::kRmsNorm, {x, row}, attrs}, 1, 1);
    check_mixtures({Op::kRmsNormGrad, {x, x, rsd, row}, attrs}, 2, 1);
  }
  // A scale with as many bytes as the result: not its place.
  check_mixtures({Op::kLayerNorm, {Shape{2, 8}, Shape{8}, Shape{8}}, attrs}, 1, 1);
}

TEST_CASE("bf16: fused programs") {
  const std::string program =
      "Mul($0, $1); Add(%0, $2); Tanh(%1); Sub(%2, $0); ReduceSum(%1) axes=[0]; "
      "return %2, %3, %4";
  const std::pair<Shape, Shape> shapes[] = {
      {{64, 256}, {256}}, {{64, 256}, {64, 1}}, {{3, 700}, {700}},     {{3, 700}, {3, 1}},
      {{33, 10}, {}},     {{33, 10}, {10}},     {{2, 9000}, {2, 9000}}};
  for (const auto& [a, b] : shapes) {
    check_mixtures({Op::kFused, {a, b, a}, FusedAttrs{program}}, 3, 2);
  }
  // Bytes alone do not make an operand fit for the result.
  check_mixtures({Op::kFused, {Shape{2, 64}, Shape{1, 64}}, FusedAttrs{"Add($0, $1); return %0"}},
                 2, 1);
}

TEST_CASE("bf16: sums of columns") {
  for (const Op op : {Op::kReduceSum, Op::kReduceMean, Op::kReduceMax}) {
    ReduceAttrs attrs;
    attrs.axes = {0, 1};
    check_rows({op, {Shape{8, 128, 300}}, attrs, 0, 0, 1, 0}, kClose);
    attrs.axes = {1};
    check_rows({op, {Shape{8, 128, 30}}, attrs, 0, 0, 1, 0}, kClose);
  }
  ReduceAttrs rows;
  rows.axes = {1};
  RowCase c{Op::kReduceSum, {Shape{4, 8}}, rows};
  c.bf16_inputs = 1;
  CHECK(refusals(c) == std::vector<std::string>{"takes columns of bfloat16, not rows"});
}

}  // namespace
}  // namespace trainrt
