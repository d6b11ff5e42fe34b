#include "tests/kernels/reference_util.h"

namespace trainrt::testing {
namespace {

TEST_CASE("Constant copies and Fill fills any type") {
  const Tensor c = eval(Op::kConstant, {}, ConstantAttrs{vec<int32_t>({3, 4})});
  CHECK(values<int32_t>(c) == std::vector<int32_t>{3, 4});
  CHECK(values<int16_t>(eval(Op::kFill, {}, FillAttrs{DType::kInt16, {3}, -2})) ==
        std::vector<int16_t>{-2, -2, -2});
  CHECK(values<bool>(eval(Op::kFill, {}, FillAttrs{DType::kBool, {2}, 1})) ==
        std::vector<bool>{true, true});
  CHECK(eval(Op::kFill, {}, FillAttrs{DType::kFloat32, {}, 0.5}).item() == 0.5);
  CHECK(eval(Op::kFill, {}, FillAttrs{DType::kFloat64, {0}, 1}).size() == 0);
}

TEST_CASE("views copy when evaluated on their own") {
  const Tensor x = counting({2, 3});
  CHECK(eval(Op::kReshape, {x}, ShapeAttrs{{3, 2}}).shape() == Shape{3, 2});
  check_close(eval(Op::kReshape, {x}, ShapeAttrs{{6}}), {0, 1, 2, 3, 4, 5});
  check_close(eval(Op::kIdentity, {x}), x);
  check_close(eval(Op::kStopGradient, {x}), x);
}

TEST_CASE("Transpose") {
  check_close(eval(Op::kTranspose, {counting({2, 3})}, PermAttrs{{1, 0}}), {0, 3, 1, 4, 2, 5});
  const Tensor y = eval(Op::kTranspose, {counting({2, 3, 4})}, PermAttrs{{2, 0, 1}});
  REQUIRE(y.shape() == Shape{4, 2, 3});
  for (size_t i = 0; i < 24; ++i) {
    CHECK(y.data<double>()[i] == double(i / 3 % 2 * 12 + i % 3 * 4 + i / 6));
  }
  CHECK(eval(Op::kTranspose, {Tensor::scalar(3.0)}, PermAttrs{}).item() == 3);
  CHECK(eval(Op::kTranspose, {Tensor(DType::kInt8, {0, 2})}, PermAttrs{{1, 0}}).shape() ==
        Shape{2, 0});
}

TEST_CASE("Transpose of rank 16 reverses back") {
  const Tensor x = counting(Shape(16, 2), DType::kInt32);
  std::vector<int64_t> perm;
  for (int64_t d = 15; d >= 0; --d) perm.push_back(d);
  const Tensor y = eval(Op::kTranspose, {x}, PermAttrs{perm});
  CHECK(y.data<int32_t>()[1] == 32768);
  CHECK(y.data<int32_t>()[3] == 49152);
  CHECK(values<int32_t>(eval(Op::kTranspose, {y}, PermAttrs{perm})) == values<int32_t>(x));
}

TEST_CASE("Expand repeats") {
  check_close(eval(Op::kExpand, {tensor<double>({1, 2}, {2, 1})}, ShapeAttrs{{2, 2, 3}}),
              {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  check_close(eval(Op::kExpand, {Tensor::scalar(7.0)}, ShapeAttrs{{2}}), {7, 7});
  CHECK(eval(Op::kExpand, {Tensor(DType::kBool, {1})}, ShapeAttrs{{0}}).size() == 0);
}

TEST_CASE("Slice with steps, backwards and empty") {
  const Tensor x = counting({3, 4});
  check_close(eval(Op::kSlice, {x}, SliceAttrs{{2, 1}, {-2, 2}, {2, 2}, {}}), {9, 11, 1, 3});
  CHECK(eval(Op::kSlice, {x}, SliceAttrs{{0, 4}, {1, 1}, {3, 0}, {}}).shape() == Shape{3, 0});
  CHECK(eval(Op::kSlice, {Tensor::scalar(1.0)}, SliceAttrs{}).item() == 1);
}

TEST_CASE("SliceGrad is the adjoint of Slice") {
  const SliceAttrs forward{{2, 1}, {-2, 2}, {2, 2}, {}};
  SliceAttrs backward = forward;
  backward.shape = {3, 4};
  const Tensor dy = tensor<double>({1, 2, 3, 4}, {2, 2});
  check_close(eval(Op::kSliceGrad, {dy}, backward), {0, 3, 0, 4, 0, 0, 0, 0, 0, 1, 0, 2});
}

TEST_CASE("Concat and Split are inverse") {
  const Tensor a = counting({2, 1, 2}), b = counting({2, 3, 2}), none(DType::kFloat64, {2, 0, 2});
  const Tensor y = eval(Op::kConcat, {a, none, b}, AxisAttrs{1});
  check_close(y, {0, 1, 0, 1, 2, 3, 4, 5, 2, 3, 6, 7, 8, 9, 10, 11});
  const auto parts = eval_all(Op::kSplit, {y}, SplitAttrs{1, {1, 0, 3}});
  check_close(parts[0], a);
  check_close(parts[1], none);
  check_close(parts[2], b);
}

TEST_CASE("Pad by mode") {
  const Tensor x = vec<double>({1, 2, 3});
  const auto pad = [&](PadMode mode, int64_t before, int64_t after) {
    return eval(Op::kPad, {x}, PadAttrs{{before}, {after}, mode, 9, {}});
  };
  check_close(pad(PadMode::kConstant, 1, 2), {9, 1, 2, 3, 9, 9});
  check_close(pad(PadMode::kReflect, 2, 2), {3, 2, 1, 2, 3, 2, 1});
  check_close(pad(PadMode::kEdge, 2, 1), {1, 1, 1, 2, 3, 3});
  check_close(pad(PadMode::kWrap, 2, 2), {2, 3, 1, 2, 3, 1, 2});
  check_close(pad(PadMode::kConstant, -1, 1), {2, 3, 9});
  check_close(pad(PadMode::kEdge, 1, -2), {1, 1});
  check_close(pad(PadMode::kReflect, 1, -1), {2, 1, 2});
  CHECK(pad(PadMode::kConstant, -1, -2).size() == 0);
}

TEST_CASE("Pad of two axes, ranks 0 and empty tensors") {
  check_close(
      eval(Op::kPad, {counting({1, 2})}, PadAttrs{{1, 0}, {0, 1}, PadMode::kConstant, 7, {}}),
      {7, 7, 7, 0, 1, 7});
  check_close(
      eval(Op::kPad, {counting({2, 2})}, PadAttrs{{1, 1}, {0, 0}, PadMode::kReflect, 0, {}}),
      {3, 2, 3, 1, 0, 1, 3, 2, 3});
  CHECK(eval(Op::kPad, {Tensor::scalar(4.0)}, PadAttrs{}).item() == 4);
  check_close(
      eval(Op::kPad, {Tensor(DType::kFloat64, {0})}, PadAttrs{{1}, {1}, PadMode::kConstant, 5, {}}),
      {5, 5});
  CHECK(values<bool>(
            eval(Op::kPad, {vec<bool>({false})}, PadAttrs{{1}, {0}, PadMode::kConstant, 1, {}})) ==
        std::vector<bool>{true, false});
}

TEST_CASE("PadGrad is the adjoint of Pad in every mode") {
  for (PadMode mode : {PadMode::kConstant, PadMode::kReflect, PadMode::kEdge, PadMode::kWrap}) {
    PadAttrs attrs{{2, -1}, {1, 2}, mode, 0, {}};
    const Tensor x = noise({3, 4}, 1);
    const Tensor y = eval(Op::kPad, {x}, attrs);
    const Tensor dy = noise(y.shape(), 2);
    attrs.shape = {3, 4};
    const Tensor dx = eval(Op::kPadGrad, {dy}, attrs);
    CHECK(std::abs(dot(dy, y) - dot(dx, x)) < 1e-12);
  }
  const PadAttrs wide{{0}, {70}, PadMode::kEdge, 0, {2}};
  check_close(eval(Op::kPadGrad, {Tensor(counting({72}).to(DType::kFloat32))}, wide),
              {0, 71 * 72 / 2});
}

TEST_CASE("Trilu keeps one triangle") {
  const Tensor x = counting({2, 2, 3});
  check_close(eval(Op::kTrilu, {x}, TriluAttrs{false, 0}), {0, 0, 0, 3, 4, 0, 6, 0, 0, 9, 10, 0});
  check_close(eval(Op::kTrilu, {x}, TriluAttrs{true, 0}), {0, 1, 2, 0, 4, 5, 6, 7, 8, 0, 10, 11});
  check_close(eval(Op::kTrilu, {counting({2, 3})}, TriluAttrs{true, 1}), {0, 1, 2, 0, 0, 5});
  check_close(eval(Op::kTrilu, {counting({2, 3})}, TriluAttrs{false, -1}), {0, 0, 0, 3, 0, 0});
  check_close(eval(Op::kTrilu, {counting({2, 3})}, TriluAttrs{false, int64_t{1} << 40}),
              counting({2, 3}));
  check_close(eval(Op::kTrilu, {counting({2, 3})}, TriluAttrs{true, int64_t{1} << 40}),
              std::vector<double>(6, 0));
  CHECK(values<int16_t>(eval(Op::kTrilu, {tensor<int16_t>({1, 2, 3, 4}, {2, 2})},
                             TriluAttrs{true, 0})) == std::vector<int16_t>{1, 2, 0, 4});
}

}  // namespace
}  // namespace trainrt::testing
