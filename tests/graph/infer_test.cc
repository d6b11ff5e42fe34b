#include "graph/infer.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>

namespace trainrt {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
constexpr int64_t kLow = std::numeric_limits<int64_t>::min();

TensorType f32(Shape shape) { return {DType::kFloat32, std::move(shape)}; }
TensorType f64(Shape shape) { return {DType::kFloat64, std::move(shape)}; }
TensorType i64(Shape shape) { return {DType::kInt64, std::move(shape)}; }
TensorType u8(Shape shape) { return {DType::kUInt8, std::move(shape)}; }
TensorType boolean(Shape shape) { return {DType::kBool, std::move(shape)}; }

std::string inferred(Op op, std::vector<TensorType> in, Attrs attrs = {}) {
  std::string out;
  for (const TensorType& t : infer_types(op, in, attrs)) {
    out += (out.empty() ? "" : " ") + to_string(t);
  }
  return out;
}

void refused(Op op, std::vector<TensorType> in, Attrs attrs, const char* message) {
  std::string result;
  try {
    result = inferred(op, std::move(in), std::move(attrs));
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kInvalidModel);
    CHECK_THAT(e.what(), ContainsSubstring(message));
    return;
  }
  FAIL_CHECK("accepted: " << op_info(op).name << " gives " << result);
}

TEST_CASE("infer: arity is checked for every op") {
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& info = op_info(static_cast<Op>(i));
    INFO(info.name);
    const std::vector<TensorType> few(static_cast<size_t>(std::max(info.min_inputs - 1, 0)),
                                      f32({2}));
    if (info.min_inputs > 0)
      CHECK_THROWS_AS(infer_types(static_cast<Op>(i), few, NoAttrs{}), Error);
    if (info.max_inputs < 0) continue;
    const std::vector<TensorType> many(static_cast<size_t>(info.max_inputs + 1), f32({2}));
    CHECK_THROWS_AS(infer_types(static_cast<Op>(i), many, NoAttrs{}), Error);
  }
}

TEST_CASE("infer: attributes of another op are refused") {
  refused(Op::kNeg, {f32({2})}, AxisAttrs{}, "another op");
  refused(Op::kSoftmax, {f32({2})}, NoAttrs{}, "another op");
}

TEST_CASE("infer: an unknown op is refused") {
  refused(static_cast<Op>(kOpCount), {}, NoAttrs{}, "no op number");
}

TEST_CASE("infer: every operand has sane dims") {
  refused(Op::kNeg, {f32({2, -1})}, {}, "negative dim");
  refused(Op::kNeg, {f32({kHuge, kHuge})}, {}, "too large");
  refused(Op::kNeg, {f32({0, kHuge})}, {}, "too large");
  refused(Op::kNeg, {f32({kMaxElements, 2})}, {}, "too large");
  refused(Op::kNeg, {f32(Shape(17, 1))}, {}, "rank 17");
  CHECK(inferred(Op::kNeg, {f32({0, kMaxElements})}) == "float32[0,1099511627776]");
  CHECK(inferred(Op::kNeg, {f32(Shape(16, 1))}).size() > 10);
}

TEST_CASE("infer: half precision is for storage") {
  refused(Op::kNeg, {{DType::kFloat16, {2}}}, {}, "half precision");
  refused(Op::kCast, {f32({2})}, CastAttrs{DType::kBFloat16}, "half precision");
}

TEST_CASE("infer: inputs") {
  CHECK(inferred(Op::kInput, {}, InputAttrs{"x", InputRole::kData, DType::kInt32, {3}}) ==
        "int32[3]");
  refused(Op::kInput, {}, InputAttrs{}, "name");
  refused(Op::kInput, {}, InputAttrs{"r", InputRole::kRng, DType::kInt64, {3}}, "int64[2]");
  refused(Op::kInput, {}, InputAttrs{"r", static_cast<InputRole>(99), DType::kInt64, {3}}, "role");
  refused(Op::kInput, {}, InputAttrs{"x", InputRole::kData, DType::kInt32, {-3}}, "negative");
}

TEST_CASE("infer: constants and fills") {
  CHECK(inferred(Op::kConstant, {}, ConstantAttrs{Tensor(DType::kBool, {2, 0})}) == "bool[2,0]");
  refused(Op::kConstant, {}, ConstantAttrs{}, "value");
  CHECK(inferred(Op::kFill, {}, FillAttrs{DType::kInt8, {2}, -128}) == "int8[2]");
  refused(Op::kFill, {}, FillAttrs{DType::kInt8, {2}, 128}, "no int8");
  refused(Op::kFill, {}, FillAttrs{DType::kUInt8, {2}, -1}, "no uint8");
  refused(Op::kFill, {}, FillAttrs{DType::kInt32, {2}, 0.5}, "no int32");
  refused(Op::kFill, {}, FillAttrs{DType::kInt64, {2}, NAN}, "no int64");
  refused(Op::kFill, {}, FillAttrs{DType::kInt64, {2}, 9223372036854775808.0}, "no int64");
  refused(Op::kFill, {}, FillAttrs{DType::kBool, {2}, 2}, "no bool");
  CHECK(inferred(Op::kFill, {}, FillAttrs{DType::kFloat32, {}, INFINITY}) == "float32[]");
}

TEST_CASE("infer: unary ops keep types and check them") {
  CHECK(inferred(Op::kNeg, {i64({2})}) == "int64[2]");
  refused(Op::kNeg, {u8({2})}, {}, "signed");
  CHECK(inferred(Op::kAbs, {u8({2})}) == "uint8[2]");
  refused(Op::kAbs, {boolean({2})}, {}, "number");
  refused(Op::kExp, {i64({2})}, {}, "floating");
  refused(Op::kRound, {i64({2})}, {}, "floating");
  CHECK(inferred(Op::kNot, {boolean({2})}) == "bool[2]");
  refused(Op::kNot, {f32({2})}, {}, "bool");
  refused(Op::kBitwiseNot, {f32({2})}, {}, "integer");
  CHECK(inferred(Op::kIsNaN, {f64({2})}) == "bool[2]");
  CHECK(inferred(Op::kIdentity, {boolean({})}) == "bool[]");
  CHECK(inferred(Op::kCast, {boolean({1})}, CastAttrs{DType::kFloat64}) == "float64[1]");
}

TEST_CASE("infer: Clip's bounds are values of the type") {
  CHECK(inferred(Op::kClip, {i64({2})}, ClipAttrs{}) == "int64[2]");
  CHECK(inferred(Op::kClip, {f32({2})}, ClipAttrs{2, 1}) == "float32[2]");
  refused(Op::kClip, {f32({2})}, ClipAttrs{NAN, 1}, "NaN");
  refused(Op::kClip, {u8({2})}, ClipAttrs{0, 256}, "no uint8");
  refused(Op::kClipGrad, {f32({2}), f32({3})}, ClipAttrs{}, "operand 1");
}

TEST_CASE("infer: binary ops broadcast") {
  CHECK(inferred(Op::kAdd, {f32({2, 1}), f32({3})}) == "float32[2,3]");
  CHECK(inferred(Op::kAdd, {f32({1}), f32({0})}) == "float32[0]");
  CHECK(inferred(Op::kAdd, {f32({}), f32({2, 2})}) == "float32[2,2]");
  refused(Op::kAdd, {f32({2}), f32({3})}, {}, "do not broadcast");
  refused(Op::kAdd, {f32({2}), f32({0})}, {}, "do not broadcast");
  refused(Op::kAdd, {f32({2}), f64({2})}, {}, "one type");
  refused(Op::kAdd, {boolean({2}), boolean({2})}, {}, "number");
  refused(Op::kMul, {f32({1 << 21, 1}), f32({1, 1 << 21})}, {}, "too large");
}

TEST_CASE("infer: comparisons and logic") {
  CHECK(inferred(Op::kEqual, {boolean({2}), boolean({1})}) == "bool[2]");
  CHECK(inferred(Op::kLess, {f32({2}), f32({})}) == "bool[2]");
  refused(Op::kLess, {boolean({2}), boolean({2})}, {}, "number");
  CHECK(inferred(Op::kAnd, {boolean({2}), boolean({2})}) == "bool[2]");
  refused(Op::kAnd, {f32({2}), f32({2})}, {}, "bool");
  refused(Op::kBitwiseAnd, {f32({2}), f32({2})}, {}, "integer");
  refused(Op::kShiftLeft, {i64({2}), i64({2})}, {}, "unsigned");
  CHECK(inferred(Op::kWhere, {boolean({2, 1}), f32({3}), f32({})}) == "float32[2,3]");
  refused(Op::kWhere, {f32({2}), f32({2}), f32({2})}, {}, "bool");
  refused(Op::kWhere, {boolean({2}), f32({2}), i64({2})}, {}, "one type");
}

TEST_CASE("infer: Reshape, Transpose, Expand") {
  CHECK(inferred(Op::kReshape, {f32({2, 3})}, ShapeAttrs{{6}}) == "float32[6]");
  CHECK(inferred(Op::kReshape, {f32({0, 3})}, ShapeAttrs{{7, 0}}) == "float32[7,0]");
  refused(Op::kReshape, {f32({2, 3})}, ShapeAttrs{{5}}, "does not reshape");
  refused(Op::kReshape, {f32({2, 3})}, ShapeAttrs{{-1}}, "negative");
  refused(Op::kReshape, {f32({0})}, ShapeAttrs{{0, kHuge, kHuge}}, "too large");
  CHECK(inferred(Op::kTranspose, {f32({2, 3, 4})}, PermAttrs{{2, 0, 1}}) == "float32[4,2,3]");
  refused(Op::kTranspose, {f32({2, 3})}, PermAttrs{{0}}, "entries");
  refused(Op::kTranspose, {f32({2, 3})}, PermAttrs{{0, 0}}, "twice");
  refused(Op::kTranspose, {f32({2, 3})}, PermAttrs{{0, 2}}, "outside");
  refused(Op::kTranspose, {f32({2, 3})}, PermAttrs{{0, -1}}, "outside");
  CHECK(inferred(Op::kExpand, {f32({3, 1})}, ShapeAttrs{{2, 3, 4}}) == "float32[2,3,4]");
  refused(Op::kExpand, {f32({3, 1})}, ShapeAttrs{{1, 1}}, "does not expand");
  refused(Op::kExpand, {f32({3})}, ShapeAttrs{{4}}, "broadcast");
}

TEST_CASE("infer: Slice stays inside, also backwards") {
  const auto slice = [](int64_t start, int64_t step, int64_t size) {
    return Attrs(SliceAttrs{{start}, {step}, {size}, {}});
  };
  CHECK(inferred(Op::kSlice, {f32({5})}, slice(1, 2, 2)) == "float32[2]");
  CHECK(inferred(Op::kSlice, {f32({5})}, slice(4, -4, 2)) == "float32[2]");
  CHECK(inferred(Op::kSlice, {f32({5})}, slice(5, 1, 0)) == "float32[0]");
  CHECK(inferred(Op::kSlice, {f32({5})}, slice(0, kHuge, 1)) == "float32[1]");
  for (auto [start, step, size] : {std::array<int64_t, 3>{1, 2, 3},
                                   {4, -4, 3},
                                   {6, 1, 0},
                                   {-1, 1, 1},
                                   {0, 0, 1},
                                   {0, 1, -1},
                                   {0, kHuge, 3},
                                   {4, kLow, 2},
                                   {0, 1, kHuge},
                                   {kHuge, 1, 2},
                                   {5, 1, 1}}) {
    refused(Op::kSlice, {f32({5})}, slice(start, step, size), "does not fit axis 0");
  }
  refused(Op::kSlice, {f32({5, 5})}, slice(0, 1, 1), "entries");
  refused(Op::kSlice, {f32({5})}, SliceAttrs{{0}, {1}, {1}, {5}}, "must be empty");
  CHECK(inferred(Op::kSliceGrad, {f32({2})}, SliceAttrs{{4}, {-2}, {2}, {5}}) == "float32[5]");
  refused(Op::kSliceGrad, {f32({3})}, SliceAttrs{{4}, {-2}, {2}, {5}}, "expected [2]");
  refused(Op::kSliceGrad, {f32({2})}, SliceAttrs{{4}, {-2}, {2}, {4}}, "does not fit");
}

TEST_CASE("infer: Concat and Split") {
  CHECK(inferred(Op::kConcat, {f32({2, 1}), f32({2, 0}), f32({2, 3})}, AxisAttrs{1}) ==
        "float32[2,4]");
  refused(Op::kConcat, {f32({2, 1}), f32({3, 1})}, AxisAttrs{1}, "do not join");
  refused(Op::kConcat, {f32({2, 1}), f32({2})}, AxisAttrs{1}, "do not join");
  refused(Op::kConcat, {f32({2}), i64({2})}, AxisAttrs{0}, "one type");
  refused(Op::kConcat, {f32({2})}, AxisAttrs{1}, "outside");
  refused(Op::kConcat, {f32({})}, AxisAttrs{0}, "outside");
  CHECK(inferred(Op::kSplit, {f32({4, 2})}, SplitAttrs{0, {1, 0, 3}}) ==
        "float32[1,2] float32[0,2] float32[3,2]");
  refused(Op::kSplit, {f32({4})}, SplitAttrs{0, {1, 2}}, "make up");
  refused(Op::kSplit, {f32({4})}, SplitAttrs{0, {5, -1}}, "make up");
  refused(Op::kSplit, {f32({4})}, SplitAttrs{0, {kHuge, kHuge}}, "make up");
  refused(Op::kSplit, {f32({0})}, SplitAttrs{0, {}}, "no parts");
}

TEST_CASE("infer: Pad") {
  const auto pad = [](int64_t before, int64_t after, PadMode mode = PadMode::kConstant,
                      double value = 0) {
    return Attrs(PadAttrs{{before}, {after}, mode, value, {}});
  };
  CHECK(inferred(Op::kPad, {f32({3})}, pad(2, -1)) == "float32[4]");
  CHECK(inferred(Op::kPad, {f32({0})}, pad(2, 1)) == "float32[3]");
  CHECK(inferred(Op::kPad, {f32({3})}, pad(2, 2, PadMode::kReflect)) == "float32[7]");
  CHECK(inferred(Op::kPad, {f32({3})}, pad(3, 3, PadMode::kWrap)) == "float32[9]");
  CHECK(inferred(Op::kPad, {f32({1})}, pad(9, 9, PadMode::kEdge)) == "float32[19]");
  refused(Op::kPad, {f32({3})}, pad(3, 0, PadMode::kReflect), "does not fit");
  refused(Op::kPad, {f32({3})}, pad(4, 0, PadMode::kWrap), "does not fit");
  refused(Op::kPad, {f32({0})}, pad(1, 0, PadMode::kEdge), "does not fit");
  refused(Op::kPad, {f32({3})}, pad(-4, 0), "does not fit");
  refused(Op::kPad, {f32({3})}, pad(-2, -2), "crop more");
  refused(Op::kPad, {f32({3})}, pad(kHuge, kHuge), "does not fit");
  refused(Op::kPad, {i64({3})}, pad(1, 0, PadMode::kConstant, 0.5), "no int64");
  refused(Op::kPad, {f32({3})}, pad(0, 0, static_cast<PadMode>(9)), "unknown pad mode");
  CHECK(inferred(Op::kPadGrad, {f32({4})}, PadAttrs{{2}, {-1}, PadMode::kEdge, 0, {3}}) ==
        "float32[3]");
  refused(Op::kPadGrad, {f32({4})}, PadAttrs{{2}, {0}, PadMode::kEdge, 0, {3}}, "expected [5]");
}

TEST_CASE("infer: Trilu") {
  CHECK(inferred(Op::kTrilu, {f32({1, 2, 3})}, TriluAttrs{true, -9}) == "float32[1,2,3]");
  refused(Op::kTrilu, {f32({3})}, TriluAttrs{}, "rank 2");
  refused(Op::kTrilu, {f32({3, 3})}, TriluAttrs{true, kLow}, "range");
}

TEST_CASE("infer: Gather family") {
  CHECK(inferred(Op::kGather, {f32({5, 3}), i64({2, 2})}, AxisAttrs{0}) == "float32[2,2,3]");
  CHECK(inferred(Op::kGather, {f32({5, 3}), i64({})}, AxisAttrs{1}) == "float32[5]");
  refused(Op::kGather, {f32({5}), f32({2})}, AxisAttrs{0}, "int32 or int64");
  refused(Op::kGather, {f32({5}), i64({2})}, AxisAttrs{1}, "outside");
  CHECK(inferred(Op::kGatherGrad, {f32({2, 3}), i64({2})}, GatherGradAttrs{0, {5, 3}}) ==
        "float32[5,3]");
  refused(Op::kGatherGrad, {f32({2, 4}), i64({2})}, GatherGradAttrs{0, {5, 3}}, "expected [2,3]");
  CHECK(inferred(Op::kGatherElements, {f32({3, 2}), i64({5, 1})}, AxisAttrs{0}) == "float32[5,1]");
  refused(Op::kGatherElements, {f32({3, 2}), i64({5, 3})}, AxisAttrs{0}, "do not fit");
  refused(Op::kGatherElements, {f32({3, 2}), i64({5})}, AxisAttrs{0}, "do not fit");
  CHECK(inferred(Op::kGatherND, {f32({2, 3, 4}), i64({2, 1})}, GatherNDAttrs{1}) == "float32[2,4]");
  refused(Op::kGatherND, {f32({2, 3}), i64({2, 3})}, GatherNDAttrs{0}, "last dim");
  refused(Op::kGatherND, {f32({2, 3}), i64({2, 0})}, GatherNDAttrs{0}, "last dim");
  refused(Op::kGatherND, {f32({2, 3}), i64({3, 1})}, GatherNDAttrs{1}, "batch axis 0");
  refused(Op::kGatherND, {f32({2, 3}), i64({2, 1})}, GatherNDAttrs{2}, "batch_dims");
  refused(Op::kGatherND, {f32({2, 3}), i64({})}, GatherNDAttrs{0}, "rank 1");
}

TEST_CASE("infer: Scatter family") {
  CHECK(inferred(Op::kScatterElements, {f32({3, 2}), i64({5, 1}), f32({5, 1})}, ScatterAttrs{}) ==
        "float32[3,2]");
  refused(Op::kScatterElements, {f32({3, 2}), i64({5, 1}), f32({5, 2})}, ScatterAttrs{}, "updates");
  refused(Op::kScatterElements, {f32({3}), i64({3}), f64({3})}, ScatterAttrs{}, "one type");
  refused(Op::kScatterElements, {f32({3}), i64({3}), f32({3})},
          ScatterAttrs{0, static_cast<Reduction>(8)}, "unknown reduction");
  refused(Op::kScatterElements, {boolean({3}), i64({3}), boolean({3})},
          ScatterAttrs{0, Reduction::kAdd}, "number");
  CHECK(inferred(Op::kScatterND, {f32({4, 3}), i64({2, 1}), f32({2, 3})}, ScatterAttrs{}) ==
        "float32[4,3]");
  refused(Op::kScatterND, {f32({4, 3}), i64({2, 1}), f32({2, 4})}, ScatterAttrs{}, "updates");
  refused(Op::kScatterND, {f32({4}), i64({2, 1}), f32({2})}, ScatterAttrs{1}, "no axis");
}

TEST_CASE("infer: reductions") {
  CHECK(inferred(Op::kReduceSum, {f32({2, 3, 4})}, ReduceAttrs{{0, 2}, false}) == "float32[3]");
  CHECK(inferred(Op::kReduceSum, {f32({2, 3, 4})}, ReduceAttrs{{0, 2}, true}) == "float32[1,3,1]");
  CHECK(inferred(Op::kReduceMax, {f32({2, 0})}, ReduceAttrs{{1}, false}) == "float32[2]");
  CHECK(inferred(Op::kReduceSum, {f32({2})}, ReduceAttrs{}) == "float32[2]");
  refused(Op::kReduceSum, {f32({2, 3})}, ReduceAttrs{{1, 0}, false}, "sorted");
  refused(Op::kReduceSum, {f32({2, 3})}, ReduceAttrs{{1, 1}, false}, "sorted");
  refused(Op::kReduceSum, {f32({2, 3})}, ReduceAttrs{{2}, false}, "outside");
  refused(Op::kReduceSum, {boolean({2})}, ReduceAttrs{{0}, false}, "number");
  refused(Op::kReduceMean, {i64({2, 0})}, ReduceAttrs{{1}, false}, "undefined");
  CHECK(inferred(Op::kArgMax, {f32({2, 3})}, ArgAttrs{1, true, false}) == "int64[2,1]");
  CHECK(inferred(Op::kArgMin, {f32({0, 0})}, ArgAttrs{1, false, false}) == "int64[0]");
  refused(Op::kArgMax, {f32({2, 0})}, ArgAttrs{1, false, false}, "nothing to find");
  refused(Op::kArgMax, {f32({})}, ArgAttrs{}, "outside");
  CHECK(inferred(Op::kCumSum, {i64({3})}, CumAttrs{}) == "int64[3]");
  refused(Op::kCumSum, {i64({3})}, CumAttrs{-1, false, false}, "outside");
  CHECK(inferred(Op::kTopK, {f32({2, 3})}, TopKAttrs{1, 0, true}) == "float32[2,0] int64[2,0]");
  refused(Op::kTopK, {f32({2, 3})}, TopKAttrs{1, 4, true}, "k = 4");
  refused(Op::kTopK, {f32({2, 3})}, TopKAttrs{1, -1, true}, "k = -1");
}

TEST_CASE("infer: MatMul") {
  CHECK(inferred(Op::kMatMul, {f32({2, 3}), f32({3, 4})}, MatMulAttrs{}) == "float32[2,4]");
  CHECK(inferred(Op::kMatMul, {f32({3, 2}), f32({4, 3})}, MatMulAttrs{true, true}) ==
        "float32[2,4]");
  CHECK(inferred(Op::kMatMul, {f32({5, 1, 2, 3}), f32({6, 3, 4})}, MatMulAttrs{}) ==
        "float32[5,6,2,4]");
  CHECK(inferred(Op::kMatMul, {f32({2, 0}), f32({0, 4})}, MatMulAttrs{}) == "float32[2,4]");
  refused(Op::kMatMul, {f32({2, 3}), f32({4, 3})}, MatMulAttrs{}, "inner dims");
  refused(Op::kMatMul, {f32({3}), f32({3, 2})}, MatMulAttrs{}, "rank 2");
  refused(Op::kMatMul, {f32({2, 2, 3}), f32({3, 3, 4})}, MatMulAttrs{}, "broadcast");
}

ConvAttrs conv2d(int64_t stride = 1, int64_t dilation = 1, int64_t pad = 0, int64_t group = 1,
                 Shape shape = {}) {
  return {{stride, stride}, {dilation, dilation}, {pad, pad}, {pad, pad}, group, std::move(shape)};
}

TEST_CASE("infer: Conv") {
  CHECK(inferred(Op::kConv, {f32({2, 4, 7, 7}), f32({6, 2, 3, 3}), f32({6})}, conv2d(2, 2, 1, 2)) ==
        "float32[2,6,3,3]");
  CHECK(inferred(Op::kConv, {f32({0, 3, 4}), f32({2, 3, 4})},
                 ConvAttrs{{1}, {1}, {0}, {0}, 1, {}}) == "float32[0,2,1]");
  const std::vector<TensorType> in = {f32({1, 4, 5, 5}), f32({4, 4, 3, 3})};
  refused(Op::kConv, in, conv2d(0), "strides");
  refused(Op::kConv, in, conv2d(1, 0), "dilations");
  refused(Op::kConv, in, conv2d(1, 1, -1), "pads");
  refused(Op::kConv, in, conv2d(1, kHuge), "dilations");
  refused(Op::kConv, in, conv2d(1, 3), "larger than the padded input");
  refused(Op::kConv, in, conv2d(1, 1, 0, 0), "group");
  refused(Op::kConv, in, conv2d(1, 1, 0, 3), "group");
  refused(Op::kConv, in, conv2d(1, 1, 0, 2), "group");
  refused(Op::kConv, in, conv2d(1, 1, 0, 1, {1}), "must be empty");
  refused(Op::kConv, in, ConvAttrs{{1}, {1}, {0}, {0}, 1, {}}, "entries");
  refused(Op::kConv, {f32({1, 4}), f32({4, 4})}, ConvAttrs{}, "spatial dims");
  refused(Op::kConv, {f32({1, 1, 1, 1, 1, 1}), f32({1, 1, 1, 1, 1, 1})}, ConvAttrs{},
          "spatial dims");
  refused(Op::kConv, {f32({1, 4, 5, 5}), f32({4, 4, 0, 3})}, conv2d(), "empty");
  refused(Op::kConv, {f32({1, 4, 5, 5}), f32({4, 4, 3, 3}), f32({5})}, conv2d(), "bias");
  refused(Op::kConv, {i64({1, 4, 5, 5}), i64({4, 4, 3, 3})}, conv2d(), "floating");
}

TEST_CASE("infer: NormConv and its gradient") {
  const NormConvAttrs attrs({}, conv2d(2, 1, 1, 4));
  const TensorType x = f32({2, 4, 7, 7}), channel = f32({4}), w = f32({8, 1, 3, 3});
  const std::vector<TensorType> in = {x, channel, channel, w};
  CHECK(inferred(Op::kNormConv, in, attrs) == "float32[2,8,4,4] float32[4] float32[4]");
  refused(Op::kNormConv, {x, f32({5}), channel, w}, attrs, "scale");
  refused(Op::kNormConv, {x, channel, channel, f32({8, 2, 3, 3})}, attrs, "group");
  NormConvAttrs negative = attrs;
  negative.epsilon = -1;
  refused(Op::kNormConv, in, negative, "epsilon");
  const TensorType dz = f32({2, 8, 4, 4});
  CHECK(inferred(Op::kNormConvGrad, {dz, x, channel, channel, channel, channel, w}, attrs) ==
        "float32[2,4,7,7] float32[4] float32[4] float32[8,1,3,3]");
  refused(Op::kNormConvGrad, {x, x, channel, channel, channel, channel, w}, attrs, "operand 0");
  refused(Op::kNormConvGrad, {dz, x, channel, channel, f32({8}), channel, w}, attrs, "mean");
}

TEST_CASE("infer: gradients of Conv take the shapes of the forward pass") {
  const Attrs data = conv2d(2, 1, 1, 1, {1, 3, 6, 6});
  CHECK(inferred(Op::kConvDataGrad, {f32({1, 4, 3, 3}), f32({4, 3, 3, 3})}, data) ==
        "float32[1,3,6,6]");
  // A convolution of stride 2 takes 5 and 6 cells to 3.
  CHECK(inferred(Op::kConvDataGrad, {f32({1, 4, 3, 3}), f32({4, 3, 3, 3})},
                 conv2d(2, 1, 1, 1, {1, 3, 5, 6})) == "float32[1,3,5,6]");
  refused(Op::kConvDataGrad, {f32({1, 4, 3, 3}), f32({4, 3, 3, 3})},
          conv2d(2, 1, 1, 1, {1, 3, 7, 6}), "operand 0");
  refused(Op::kConvDataGrad, {f32({1, 4, 3, 3}), f32({4, 3, 3, 3})},
          conv2d(2, 1, 1, 1, {1, 2, 6, 6}), "channels");
  refused(Op::kConvDataGrad, {f32({1, 4, 3, 3}), f32({4, 3, 3, 3})}, conv2d(), "spatial dims");
  CHECK(inferred(Op::kConvWeightGrad, {f32({1, 3, 6, 6}), f32({1, 4, 3, 3})},
                 conv2d(2, 1, 1, 1, {4, 3, 3, 3})) == "float32[4,3,3,3]");
  refused(Op::kConvWeightGrad, {f32({1, 3, 6, 6}), f32({1, 4, 3, 3})},
          conv2d(2, 1, 1, 1, {4, 3, 5, 3}), "operand 1");
}

PoolAttrs pool1d(int64_t kernel, int64_t stride, int64_t dilation, int64_t begin, int64_t end,
                 int64_t output) {
  PoolAttrs p;
  p.kernel = {kernel};
  p.strides = {stride};
  p.dilations = {dilation};
  p.pads_begin = {begin};
  p.pads_end = {end};
  p.output = {output};
  return p;
}

TEST_CASE("infer: pools") {
  CHECK(inferred(Op::kMaxPool, {u8({1, 2, 5})}, pool1d(2, 2, 1, 0, 0, 3)) == "uint8[1,2,3]");
  CHECK(inferred(Op::kMaxPoolIndices, {f32({1, 2, 5})}, pool1d(2, 2, 1, 1, 0, 3)) ==
        "int64[1,2,3]");
  CHECK(inferred(Op::kMaxPoolGrad, {f32({1, 2, 3}), f32({1, 2, 5})}, pool1d(2, 2, 1, 0, 0, 3)) ==
        "float32[1,2,5]");
  CHECK(inferred(Op::kAveragePool, {f32({1, 2, 5})}, pool1d(2, 2, 1, 0, 0, 0)) == "float32[1,2,0]");
  refused(Op::kAveragePool, {i64({1, 2, 5})}, pool1d(2, 2, 1, 0, 0, 2), "floating");
  refused(Op::kMaxPoolGrad, {f32({1, 2, 2}), f32({1, 2, 5})}, pool1d(2, 2, 1, 0, 0, 3),
          "operand 0");
  for (Op op : {Op::kMaxPool, Op::kMaxPoolIndices, Op::kAveragePool}) {
    refused(op, {f32({1, 2, 5})}, pool1d(0, 1, 1, 0, 0, 1), "kernel");
    refused(op, {f32({1, 2, 5})}, pool1d(1, 0, 1, 0, 0, 1), "strides");
    refused(op, {f32({1, 2, 5})}, pool1d(1, 1, 0, 0, 0, 1), "dilations");
    refused(op, {f32({1, 2, 5})}, pool1d(1, 1, 1, -1, 0, 1), "pads_begin");
    refused(op, {f32({1, 2, 5})}, pool1d(1, 1, 1, 0, 0, -1), "output");
    refused(op, {f32({1, 2})}, pool1d(1, 1, 1, 0, 0, 1), "spatial dims");
  }
}

TEST_CASE("infer: each window of a pool holds a cell") {
  CHECK(inferred(Op::kMaxPool, {f32({1, 1, 5})}, pool1d(3, 1, 1, 2, 2, 7)) == "float32[1,1,7]");
  refused(Op::kMaxPool, {f32({1, 1, 5})}, pool1d(3, 1, 1, 3, 0, 5), "holds no cell");
  refused(Op::kMaxPool, {f32({1, 1, 5})}, pool1d(3, 1, 1, 0, 9, 6), "holds no cell");
  refused(Op::kMaxPool, {f32({1, 1, 0})}, pool1d(1, 1, 1, 1, 1, 1), "holds no cell");
  // Taps at -1 and 2 step over the only two cells; those at -3, 0 do not.
  refused(Op::kMaxPool, {f32({1, 1, 2})}, pool1d(2, 1, 3, 1, 1, 1), "holds no cell");
  CHECK(inferred(Op::kMaxPool, {f32({1, 1, 2})}, pool1d(2, 1, 3, 3, 0, 2)) == "float32[1,1,2]");
  PoolAttrs padded = pool1d(2, 1, 1, 2, 2, 8);
  refused(Op::kAveragePool, {f32({1, 1, 5})}, padded, "holds no cell");
  padded.count_include_pad = true;
  CHECK(inferred(Op::kAveragePool, {f32({1, 1, 5})}, padded) == "float32[1,1,8]");
  padded.output = {10};
  refused(Op::kAveragePool, {f32({1, 1, 5})}, padded, "holds no cell");
  refused(Op::kMaxPool, {f32({1, 1, 5})}, padded, "count_include_pad");
}

TEST_CASE("infer: gradient of AveragePool") {
  PoolAttrs p = pool1d(2, 2, 1, 0, 0, 3);
  p.shape = {1, 2, 5};
  CHECK(inferred(Op::kAveragePoolGrad, {f32({1, 2, 3})}, p) == "float32[1,2,5]");
  refused(Op::kAveragePoolGrad, {f32({1, 2, 2})}, p, "operand 0");
  p.shape = {};
  refused(Op::kAveragePoolGrad, {f32({1, 2, 3})}, p, "spatial dims");
}

TEST_CASE("infer: RoiPool") {
  const TensorType x = f32({2, 3, 5, 5}), rois = f32({4, 4}), images = i64({4});
  const RoiAttrs p{RoiMode::kMax, 2, 3, 0, 1, false};
  CHECK(inferred(Op::kRoiPool, {x, rois, images}, p) == "float32[4,3,2,3]");
  CHECK(inferred(Op::kRoiPoolGrad, {f32({4, 3, 2, 3}), x, rois, images}, p) == "float32[2,3,5,5]");
  refused(Op::kRoiPoolGrad, {f32({4, 3, 2, 2}), x, rois, images}, p, "operand 0");
  refused(Op::kRoiPool, {x, f32({4, 5}), images}, p, "[R,4]");
  refused(Op::kRoiPool, {x, f64({4, 4}), images}, p, "given as");
  refused(Op::kRoiPool, {x, rois, i64({3})}, p, "images");
  refused(Op::kRoiPool, {f32({2, 3, 0, 5}), rois, images}, p, "nothing to cut");
  refused(Op::kRoiPool, {x, rois, images}, RoiAttrs{RoiMode::kMax, -1, 3, 0, 1, false}, "bins");
  refused(Op::kRoiPool, {x, rois, images}, RoiAttrs{RoiMode::kMax, 1, 1, 9999, 1, false}, "ratio");
  refused(Op::kRoiPool, {x, rois, images}, RoiAttrs{RoiMode::kMax, 1, 1, 0, NAN, false}, "finite");
}

TEST_CASE("infer: RoundTo") {
  CHECK(inferred(Op::kRoundTo, {f64({2})}, RoundToAttrs{3, -6, 448}) == "float64[2]");
  refused(Op::kRoundTo, {i64({2})}, RoundToAttrs{3, -6, 448}, "float");
  refused(Op::kRoundTo, {f32({2})}, RoundToAttrs{60, -6, 448}, "60 bits");
  refused(Op::kRoundTo, {f32({2})}, RoundToAttrs{3, -6, 0}, "largest value");
}

TEST_CASE("infer: Interpolate") {
  const InterpolateAttrs p{1, 3, 2, 2, {0, 1, 2, 2}, {0.5, 0.5, 1, 0}};
  CHECK(inferred(Op::kInterpolate, {f32({4, 3})}, p) == "float32[4,2]");
  CHECK(inferred(Op::kInterpolateGrad, {f32({4, 2})}, p) == "float32[4,3]");
  refused(Op::kInterpolate, {f32({4, 2})}, p, "axis 1");
  auto bad = p;
  bad.index[3] = 3;
  refused(Op::kInterpolate, {f32({4, 3})}, bad, "outside of axis size");
  bad = p;
  bad.weight.pop_back();
  refused(Op::kInterpolate, {f32({4, 3})}, bad, "weight");
  bad = p;
  bad.weight[0] = NAN;
  refused(Op::kInterpolate, {f32({4, 3})}, bad, "finite");
  bad = p;
  bad.taps = 0;
  refused(Op::kInterpolate, {f32({4, 3})}, bad, "make no sense");
  bad.taps = kHuge;
  refused(Op::kInterpolate, {f32({4, 3})}, bad, "too many");
}

TEST_CASE("infer: Softmax and its gradient") {
  CHECK(inferred(Op::kSoftmax, {f32({2, 0})}, AxisAttrs{1}) == "float32[2,0]");
  refused(Op::kSoftmax, {f32({})}, AxisAttrs{0}, "outside");
  refused(Op::kLogSoftmax, {i64({2})}, AxisAttrs{0}, "floating");
  refused(Op::kSoftmaxGrad, {f32({2}), f32({3})}, AxisAttrs{0}, "operand 1");
}

TEST_CASE("infer: normalisations") {
  CHECK(inferred(Op::kLayerNorm, {f32({2, 3, 4})}, NormAttrs{1, 0}) ==
        "float32[2,3,4] float32[2,1,1] float32[2,1,1]");
  CHECK(inferred(Op::kLayerNorm, {f32({2, 3}), f32({2, 3}), f32({2, 3})}, NormAttrs{0, 0}) ==
        "float32[2,3] float32[1,1] float32[1,1]");
  refused(Op::kLayerNorm, {f32({2, 3}), f32({3})}, NormAttrs{1, 0}, "together");
  refused(Op::kLayerNorm, {f32({2, 3}), f32({1}), f32({3})}, NormAttrs{1, 0}, "scale");
  refused(Op::kLayerNorm, {f32({2, 3})}, NormAttrs{2, 0}, "outside");
  refused(Op::kLayerNorm, {f32({2, 3})}, NormAttrs{1, -1}, "epsilon");
  refused(Op::kLayerNorm, {f32({2, 3})}, NormAttrs{1, NAN}, "epsilon");
  const std::vector<TensorType> grad = {f32({2, 3}), f32({2, 3}), f32({2, 1}), f32({2, 1})};
  CHECK(inferred(Op::kLayerNormGrad, grad, NormAttrs{1, 0}) == "float32[2,3]");
  auto with_scale = grad;
  with_scale.push_back(f32({3}));
  CHECK(inferred(Op::kLayerNormGrad, with_scale, NormAttrs{1, 0}) ==
        "float32[2,3] float32[3] float32[3]");
  with_scale[2] = f32({2});
  refused(Op::kLayerNormGrad, with_scale, NormAttrs{1, 0}, "mean");
  CHECK(inferred(Op::kBatchNorm, {f32({2, 3, 4}), f32({3}), f32({3})}, NormAttrs{}) ==
        "float32[2,3,4] float32[3] float32[3]");
  refused(Op::kBatchNorm, {f32({2, 3}), f32({2}), f32({3})}, NormAttrs{}, "scale");
  refused(Op::kBatchNorm, {f32({2}), f32({2}), f32({2})}, NormAttrs{}, "rank 2");
  refused(Op::kBatchNorm, {f32({2, 3}), f32({3}), f32({3})}, NormAttrs{0, 0}, "axis 1");
}

TEST_CASE("infer: losses") {
  CHECK(inferred(Op::kCrossEntropy, {f32({2, 5, 3}), i64({2, 3})}, LossAttrs{}) == "float32[2,3]");
  CHECK(inferred(Op::kNllLoss, {f32({5}), i64({})}, LossAttrs{0, -1, {}}) == "float32[]");
  refused(Op::kCrossEntropy, {f32({2, 5}), i64({5})}, LossAttrs{}, "class ids");
  refused(Op::kCrossEntropy, {f32({2, 5}), f32({2})}, LossAttrs{}, "int32 or int64");
  refused(Op::kCrossEntropy, {f32({2, 5}), i64({2})}, LossAttrs{2, 0, {}}, "class_axis");
  CHECK(inferred(Op::kCrossEntropyGrad, {f32({2}), f32({2, 5}), i64({2})}, LossAttrs{}) ==
        "float32[2,5]");
  refused(Op::kCrossEntropyGrad, {f32({3}), f32({2, 5}), i64({2})}, LossAttrs{}, "operand 0");
  CHECK(inferred(Op::kNllLossGrad, {f32({2}), i64({2})}, LossAttrs{1, 0, {2, 5}}) ==
        "float32[2,5]");
  refused(Op::kNllLossGrad, {f32({2}), i64({2})}, LossAttrs{1, 0, {3, 5}}, "operand 0");
}

TEST_CASE("infer: random ops") {
  CHECK(inferred(Op::kDropout, {f32({2}), i64({2})}, DropoutAttrs{0.99, 0}) == "float32[2]");
  refused(Op::kDropout, {f32({2}), i64({2})}, DropoutAttrs{1, 0}, "ratio");
  refused(Op::kDropout, {f32({2}), i64({2})}, DropoutAttrs{NAN, 0}, "ratio");
  refused(Op::kDropout, {f32({2}), i64({2})}, DropoutAttrs{0.5, -1}, "stream");
  refused(Op::kDropout, {f32({2}), i64({3})}, DropoutAttrs{}, "int64[2]");
  CHECK(inferred(Op::kRandom, {i64({2})}, RandomAttrs{RandomKind::kNormal, DType::kFloat64, {3}}) ==
        "float64[3]");
  refused(Op::kRandom, {i64({2})}, RandomAttrs{RandomKind::kNormal, DType::kInt32, {3}},
          "floating");
  refused(Op::kRandom, {i64({2})}, RandomAttrs{RandomKind::kNormal, DType::kFloat32, {}, NAN},
          "finite");
  refused(Op::kRandom, {i64({2})}, RandomAttrs{static_cast<RandomKind>(7), DType::kFloat32, {2}},
          "unknown");
}

TEST_CASE("infer: state updates") {
  CHECK(inferred(Op::kAssign, {boolean({2}), boolean({2})}) == "bool[2]");
  refused(Op::kAssign, {f32({2}), f32({1})}, {}, "operand 1");
  refused(Op::kAssignAdd, {boolean({2}), boolean({2})}, {}, "number");
  const auto update = [](OptimizerKind kind, size_t slots) {
    std::vector<TensorType> in = {f32({3}), f32({3}), f64({2}), f32({})};
    in.insert(in.end(), slots, f32({3}));
    OptimizerAttrs attrs;
    attrs.kind = kind;
    return inferred(Op::kOptimizerUpdate, in, attrs);
  };
  CHECK(update(OptimizerKind::kSgd, 0) == "float32[3]");
  CHECK(update(OptimizerKind::kMomentum, 1) == "float32[3] float32[3]");
  CHECK(update(OptimizerKind::kAdamW, 2) == "float32[3] float32[3] float32[3]");
  CHECK_THROWS_AS(update(OptimizerKind::kAdam, 1), Error);
  CHECK_THROWS_AS(update(OptimizerKind::kSgd, 1), Error);
  OptimizerAttrs sgd;
  refused(Op::kOptimizerUpdate, {f32({3}), f32({3}), f64({2}), f64({})}, sgd, "gradient scale");
  refused(Op::kOptimizerUpdate, {f32({3}), f32({3}), f32({2}), f32({})}, sgd, "hyper");
  refused(Op::kOptimizerUpdate, {f32({3}), f32({2}), f64({2}), f32({})}, sgd, "gradient");
  sgd.weight_decay = NAN;
  refused(Op::kOptimizerUpdate, {f32({3}), f32({3}), f64({2}), f32({})}, sgd, "finite");
}

TEST_CASE("infer: broadcast_shapes") {
  CHECK(broadcast_shapes(Shape{}, Shape{}) == Shape{});
  CHECK(broadcast_shapes(Shape{1}, Shape{0}) == Shape{0});
  CHECK(broadcast_shapes(Shape{4, 1, 3}, Shape{2, 1}) == Shape{4, 2, 3});
  CHECK_THROWS_AS(broadcast_shapes(Shape{2}, Shape{3}), Error);
}

}  // namespace
}  // namespace trainrt
