// A node handed on to the lowering of another operator. Private to the frontend.
#ifndef TRAINRT_FRONTEND_LOWER_DELEGATE_H_
#define TRAINRT_FRONTEND_LOWER_DELEGATE_H_

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "frontend/lower.h"

namespace trainrt::lowering {

/// The node of `outer` as if it were an operator of ONNX's default domain, with other inputs and
/// attributes where that is asked for. Results are kept here.
class Delegate final : public LowerContext {
 public:
  using Value = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

  Delegate(LowerContext& outer, std::string op_type, int64_t opset_version,
           std::vector<Var> inputs);

  Delegate& with(std::string name, Value value) {
    attrs_[std::move(name)] = std::move(value);
    return *this;
  }
  /// Attributes of the outer node are out of sight.
  Delegate& own_attributes_only() {
    own_only_ = true;
    return *this;
  }
  /// Output 0; refuses the node when the operator has no lowering or sets none.
  Var run();
  Var result(size_t i) const { return i < results_.size() ? results_[i] : Var(); }

  size_t input_count() const override { return inputs_.size(); }
  Var in(size_t i) const override { return i < inputs_.size() ? inputs_[i] : Var(); }
  Tensor constant(size_t i) const override;
  Tensor constant_of(Var value, const std::string& what) const override {
    return outer_.constant_of(value, what);
  }

  bool has_attr(std::string_view name) const override;
  int64_t attr_int(std::string_view name) const override;
  double attr_float(std::string_view name) const override;
  std::string attr_string(std::string_view name) const override;
  std::vector<int64_t> attr_ints(std::string_view name) const override;
  std::vector<double> attr_floats(std::string_view name) const override;
  std::vector<std::string> attr_strings(std::string_view name) const override;
  Tensor attr_tensor(std::string_view name) const override;

  size_t output_count() const override { return outer_.output_count(); }
  bool wants(size_t i) const override { return i == 0 || outer_.wants(i); }
  void set(size_t i, Var value) override;

  Var rng() override { return outer_.rng(); }
  int64_t next_stream() override { return outer_.next_stream(); }
  void update_buffer(size_t, Var) override {}
  std::vector<NodeValue> subgraph(std::string_view, std::span<const NodeValue>) override {
    no_subgraphs();
  }
  size_t subgraph_input_count(std::string_view) const override { no_subgraphs(); }
  size_t subgraph_output_count(std::string_view) const override { no_subgraphs(); }
  void leave_out(std::string_view) override { no_subgraphs(); }

 private:
  [[noreturn]] void no_subgraphs() const { refuse("no_lowering", "a subgraph in " + op); }
  template <typename T>
  const T* own(std::string_view name) const;
  void check_visible(std::string_view name) const;

  LowerContext& outer_;
  std::vector<Var> inputs_, results_;
  std::map<std::string, Value, std::less<>> attrs_;
  bool own_only_ = false;
};

/// All inputs of a node.
std::vector<Var> inputs_of(const LowerContext& c);

/// Lowers the node as the operator `op` of the default domain at `opset`, all outputs included.
void lower_as(LowerContext& c, std::string op, int64_t opset);

}  // namespace trainrt::lowering

#endif  // TRAINRT_FRONTEND_LOWER_DELEGATE_H_
