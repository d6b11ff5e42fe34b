#include "runtime/input_check.h"

#include <catch2/catch_test_macros.hpp>

namespace trainrt {
namespace {

template <typename F>
std::string failure(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kInput);
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

LossTerm class_term(Shape output, const char* loss = "cross_entropy") {
  LossTerm term;
  term.spec = parse_loss(loss);
  term.output = "y";
  term.target = "target";
  term.output_type = {DType::kFloat32, std::move(output)};
  return term;
}

/// For an input of any shape.
Tensor fit(const std::string& name, DType declared, DType working, const Tensor& given) {
  Port port;
  port.name = name;
  port.dtype = declared;
  return fit_input(name, port, working, given);
}

TEST_CASE("a tensor of the right type is passed on, not copied") {
  const Tensor x = Tensor::from<float>({1, 2}, {2});
  CHECK(fit("x", DType::kFloat32, DType::kFloat32, x).raw() == x.raw());
  const Tensor i = Tensor::of_ints(std::vector<int64_t>{1});
  CHECK(fit("i", DType::kInt64, DType::kFloat32, i).raw() == i.raw());
}

TEST_CASE("float types convert to the working type") {
  const Tensor x = Tensor::from<double>({0.5, 2}, {2});
  const Tensor y = fit("x", DType::kFloat32, DType::kFloat32, x);
  CHECK(y.data<float>()[0] == 0.5f);
  CHECK(fit("x", DType::kFloat16, DType::kFloat64, y).dtype() == DType::kFloat64);
}

TEST_CASE("integers for a float input are refused with both types") {
  const Tensor x = Tensor::of_ints(std::vector<int64_t>{1, 2});
  const std::string text = failure([&] { fit("x", DType::kFloat32, DType::kFloat32, x); });
  CHECK(contains(text, "input x: expected float32, given int64[2]"));
}

TEST_CASE("floats and bools for an integer input are refused") {
  CHECK(contains(failure([&] { fit("i", DType::kInt64, DType::kFloat32, Tensor::scalar(1.0f)); }),
                 "input i: expected int64, given float32[]"));
  CHECK_FALSE(
      failure([&] { fit("i", DType::kInt64, DType::kFloat32, Tensor::scalar(true)); }).empty());
  CHECK_FALSE(failure([&] {
                fit("m", DType::kBool, DType::kFloat32, Tensor::scalar(int64_t{1}));
              }).empty());
}

TEST_CASE("integer types convert when every value fits") {
  const Tensor x = Tensor::of_ints(std::vector<int64_t>{-5, 2147483647});
  CHECK(fit("i", DType::kInt32, DType::kFloat32, x).data<int32_t>()[1] == 2147483647);
  const Tensor big = Tensor::of_ints(std::vector<int64_t>{1, 2147483648});
  CHECK(contains(failure([&] { fit("i", DType::kInt32, DType::kFloat32, big); }),
                 "input i: expected int32, given int64[2]: element 1 = 2147483648 does not fit"));
  CHECK_FALSE(failure([&] { fit("i", DType::kUInt8, DType::kFloat32, x); }).empty());
  const Tensor huge = Tensor::from<uint64_t>({~uint64_t{0}}, {1});
  CHECK_FALSE(failure([&] { fit("i", DType::kInt64, DType::kFloat32, huge); }).empty());
}

TEST_CASE("a shape that was not declared is refused with the type given") {
  Port port;
  port.name = "x";
  port.has_shape = true;
  port.dims = {{-1, "n"}, {4, ""}};
  const auto fit_to_port = [&](const Tensor& given) {
    return failure([&] { fit_input("x", port, DType::kFloat32, given); });
  };
  CHECK(fit_to_port(Tensor(DType::kFloat64, {7, 4})).empty());
  CHECK(fit_to_port(Tensor(DType::kFloat64, {7, 5})) ==
        "input x: expected float32[n,4], given float64[7,5]");
  CHECK(fit_to_port(Tensor(DType::kFloat32, {4})) ==
        "input x: expected float32[n,4], given float32[4]");
  CHECK(fit_to_port(Tensor(DType::kBool, {7, 4})) ==
        "input x: expected float32[n,4], given bool[7,4]");
  CHECK(fit_to_port(Tensor()) == "input x: expected float32[n,4], given an undefined tensor");
}

TEST_CASE("a gradient has its output's shape and any float type") {
  const TensorType y{DType::kFloat32, {2, 3}};
  CHECK(fit_gradient("y", y, Tensor(DType::kFloat64, {2, 3})).dtype() == DType::kFloat32);
  CHECK(failure([&] {
          fit_gradient("y", y, Tensor(DType::kInt64, {2, 3}));
        }) == "gradient of output y: expected float32[2,3], given int64[2,3]");
  CHECK(failure([&] {
          fit_gradient("y", y, Tensor(DType::kFloat32, {3, 2}));
        }) == "gradient of output y: expected float32[2,3], given float32[3,2]");
}

TEST_CASE("class ids come from any integer type, never from floats") {
  const LossTerm ce = class_term({2, 256});
  const Tensor bytes = Tensor::from<uint8_t>({0, 255}, {2});
  CHECK(fit_target(ce, DType::kFloat32, bytes).data<int64_t>()[1] == 255);
  CHECK(contains(failure([&] {
                   fit_target(ce, DType::kFloat32, Tensor::from<float>({0, 1}, {2}));
                 }),
                 "loss cross_entropy of output y, 'target': expected int64[2] of class ids, given "
                 "float32[2]"));
}

TEST_CASE("values come from integers that are exact") {
  const LossTerm mse = class_term({}, "mse");
  CHECK(fit_target(mse, DType::kFloat32, Tensor::scalar(int64_t{3})).item() == 3);
  CHECK(fit_target(mse, DType::kFloat32, Tensor::scalar(true)).item() == 1);
  const Tensor big = Tensor::scalar((int64_t{1} << 24) + 1);
  CHECK_FALSE(failure([&] { fit_target(mse, DType::kFloat32, big); }).empty());
  CHECK(fit_target(mse, DType::kFloat64, big).item() == 16777217.0);
}

TEST_CASE("class ids lie in the range of the classes") {
  const LossTerm term = class_term({2, 3});
  check_class_ids(term, Tensor::of_ints(std::vector<int64_t>{0, 2}));
  check_class_ids(term, Tensor::of_ints(std::vector<int64_t>{-100, 1}));
  const std::string text = failure([&] {
    check_class_ids(term, Tensor::of_ints(std::vector<int64_t>{1, 7}));
  });
  CHECK(contains(text, "target value 7"));
  CHECK(contains(text, "3 classes"));
  CHECK_FALSE(failure([&] {
                check_class_ids(term, Tensor::of_ints(std::vector<int64_t>{-1, 0}));
              }).empty());
}

TEST_CASE("the class axis of images is axis 1") {
  const LossTerm term = class_term({1, 4, 2, 2});
  Tensor target(DType::kInt64, {1, 2, 2});
  target.fill(3);
  check_class_ids(term, target);
  target.fill(4);
  CHECK_FALSE(failure([&] { check_class_ids(term, target); }).empty());
}

}  // namespace
}  // namespace trainrt
