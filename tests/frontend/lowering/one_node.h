// One ONNX node without a file: lowered from values in memory and run on the reference kernels in
// float64.
#ifndef TRAINRT_TESTS_FRONTEND_LOWERING_ONE_NODE_H_
#define TRAINRT_TESTS_FRONTEND_LOWERING_ONE_NODE_H_

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "frontend/lower.h"

namespace trainrt {

using AttrValue =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, Tensor>;

/// `OneNode("Clip", 11).input(x).constant(lo).attr("max", 1.0).run()`.
class OneNode {
 public:
  OneNode(std::string op, int64_t opset, std::string domain = "")
      : op_(std::move(op)), domain_(std::move(domain)), opset_(opset) {
    options.working = DType::kFloat64;
  }

  /// An input whose contents a lowering cannot see.
  OneNode& input(Tensor t) { return add(std::move(t), false); }
  /// An input with known contents, as an initializer.
  OneNode& constant(Tensor t) { return add(std::move(t), true); }
  OneNode& absent() { return add({}, true); }
  /// The last input holds a narrow element type, by ONNX's number.
  OneNode& narrow(int64_t type) {
    operands_.back().narrow = type;
    return *this;
  }
  OneNode& attr(std::string name, AttrValue value) {
    attrs_[std::move(name)] = std::move(value);
    return *this;
  }
  OneNode& attr(std::string name, int value) {
    return attr(std::move(name), AttrValue(int64_t{value}));
  }
  OneNode& attr(std::string name, double value) { return attr(std::move(name), AttrValue(value)); }
  OneNode& attr(std::string name, const char* value) {
    return attr(std::move(name), AttrValue(std::string(value)));
  }
  OneNode& opset(int64_t version) {
    opset_ = version;
    return *this;
  }
  OneNode& outputs(size_t count) {
    outputs_ = count;
    return *this;
  }

  /// All named outputs; undefined tensors where the lowering set none.
  std::vector<Tensor> run();
  Tensor y() { return run().at(0); }
  /// Gradients of the sum over outputs of <dy, y>, by input; an undefined tensor where nothing
  /// flows.
  std::map<int, Tensor> gradients(const std::map<int, Tensor>& dy);
  /// With respect to input i, for a single output.
  Tensor gradient(int i, const Tensor& dy) { return gradients({{0, dy}}).at(i); }
  /// Kind of the refusal ("memory" for shapes out of reach); empty when the node was lowered.
  std::string refusal();

  SpecializeOptions options;
  /// New values of running statistics, by input, after run().
  std::map<size_t, Tensor> buffers;
  /// ONNX's number of the narrow element type of output 0, after run(); else 0.
  int64_t narrow_output = 0;

 private:
  friend class FakeContext;
  struct Operand {
    Tensor value;
    bool known;
    int64_t narrow = 0;
  };

  OneNode& add(Tensor t, bool known) {
    operands_.push_back({std::move(t), known, 0});
    return *this;
  }

  std::string op_, domain_;
  int64_t opset_;
  std::vector<Operand> operands_;
  std::map<std::string, AttrValue, std::less<>> attrs_;
  size_t outputs_ = 1;
};

Tensor reals(std::initializer_list<double> values, Shape shape);
Tensor reals(std::initializer_list<double> values);  // rank 1
Tensor real(double value);                           // rank 0
Tensor ints(std::initializer_list<int64_t> values, Shape shape);
Tensor ints(std::initializer_list<int64_t> values);
Tensor bools(std::initializer_list<bool> values, Shape shape);

/// Same type and shape, and elements within 1e-12 of each other (NaN and infinities alike).
bool same(const Tensor& a, const Tensor& b);
/// "float64[2]{1,2}", for messages.
std::string show(const Tensor& t);

#define CHECK_SAME(given, expected)                        \
  do {                                                     \
    const Tensor given_ = (given), expected_ = (expected); \
    INFO("given    " << show(given_));                     \
    INFO("expected " << show(expected_));                  \
    CHECK(same(given_, expected_));                        \
  } while (false)

}  // namespace trainrt

#endif  // TRAINRT_TESTS_FRONTEND_LOWERING_ONE_NODE_H_
