#include "tests/frontend/lowering/one_node.h"

#include <cmath>
#include <sstream>

#include "autodiff/autodiff.h"
#include "kernels/reference/evaluate.h"

namespace trainrt {

class FakeContext final : public LowerContext {
 public:
  FakeContext(Builder& builder, OneNode& node)
      : LowerContext(builder, node.options, node.opset_, node.op_),
        node_(node),
        outputs_(node.outputs_) {
    while (!node_.operands_.empty() && !node_.operands_.back().value.defined()) {
      node_.operands_.pop_back();
    }
    for (size_t i = 0; i < node_.operands_.size(); ++i) {
      const auto& [value, known, narrow] = node_.operands_[i];
      Var v;
      if (value.defined() && known) {
        v = b.constant(value);
      } else if (value.defined()) {
        v = b.input({name(i), InputRole::kData, value.dtype(), value.shape()});
      }
      inputs_.push_back(v);
    }
  }

  static std::string name(size_t i) { return "x" + std::to_string(i); }
  const std::vector<Var>& results() const { return outputs_; }
  const std::vector<Var>& inputs() const { return inputs_; }

  size_t input_count() const override { return inputs_.size(); }
  Var in(size_t i) const override { return i < inputs_.size() ? inputs_[i] : Var(); }
  Tensor constant(size_t i) const override {
    return constant_of(need(i), "input " + std::to_string(i));
  }
  Tensor constant_of(Var value, const std::string& what) const override {
    const auto known = b.constant_value(value);
    if (!known) refuse("dynamic", what + " must be known");
    return *known;
  }

  bool has_attr(std::string_view name) const override { return node_.attrs_.contains(name); }
  int64_t attr_int(std::string_view name) const override { return get<int64_t>(name); }
  double attr_float(std::string_view name) const override { return get<double>(name); }
  std::string attr_string(std::string_view name) const override { return get<std::string>(name); }
  std::vector<int64_t> attr_ints(std::string_view name) const override {
    return get<std::vector<int64_t>>(name);
  }
  std::vector<double> attr_floats(std::string_view name) const override {
    return get<std::vector<double>>(name);
  }
  std::vector<std::string> attr_strings(std::string_view) const override { return {}; }
  Tensor attr_tensor(std::string_view name) const override { return get<Tensor>(name); }

  using LowerContext::attr_float;
  using LowerContext::attr_floats;
  using LowerContext::attr_int;
  using LowerContext::attr_ints;
  using LowerContext::attr_string;
  using LowerContext::set;

  int64_t narrow_type(size_t i) const override {
    return i < node_.operands_.size() ? node_.operands_[i].narrow : 0;
  }
  void set_narrow(size_t i, int64_t type) override {
    if (i == 0) node_.narrow_output = type;
  }

  size_t output_count() const override { return outputs_.size(); }
  bool wants(size_t i) const override { return i < outputs_.size(); }
  void set(size_t i, Var value) override {
    if (i < outputs_.size()) outputs_[i] = value;
  }

  Var rng() override { return b.input({"rng", InputRole::kRng, DType::kInt64, {2}}); }
  int64_t next_stream() override { return 0; }
  void update_buffer(size_t i, Var value) override {
    b.graph().add_output("buffer" + std::to_string(i), value.id());
  }

  std::vector<NodeValue> subgraph(std::string_view, std::span<const NodeValue>) override {
    return {};
  }
  size_t subgraph_input_count(std::string_view) const override { return 0; }
  size_t subgraph_output_count(std::string_view) const override { return 0; }
  void leave_out(std::string_view) override {}

 private:
  template <typename T>
  T get(std::string_view name) const {
    const auto it = node_.attrs_.find(name);
    if (it == node_.attrs_.end()) invalid("attribute " + std::string(name) + " is missing");
    return std::get<T>(it->second);
  }

  OneNode& node_;
  std::vector<Var> inputs_, outputs_;
};

namespace {

void lower(FakeContext& context, const std::string& domain, const std::string& op, int64_t opset) {
  const LoweringRow* row = find_lowering(domain, op, opset);
  if (row == nullptr) throw LowerError{"no_lowering", "no row for " + op};
  row->lower(context);
}

std::map<std::string, Tensor> evaluate(const Graph& graph, const FakeContext& context,
                                       const std::vector<Tensor>& values) {
  std::map<std::string, Tensor> inputs = {{"rng", Tensor::from<int64_t>({7, 1}, {2})}};
  for (size_t i = 0; i < values.size(); ++i) {
    if (context.in(i) && !context.b.is_constant(context.in(i))) {
      inputs[FakeContext::name(i)] = values[i].clone();
    }
  }
  return evaluate_graph(graph, std::move(inputs));
}

}  // namespace

std::vector<Tensor> OneNode::run() {
  Graph graph;
  Builder builder(graph, evaluate_node);
  FakeContext context(builder, *this);
  lower(context, domain_, op_, opset_);
  for (size_t i = 0; i < outputs_; ++i) {
    if (context.results()[i]) {
      graph.add_output("y" + std::to_string(i), context.results()[i].id());
    }
  }
  std::vector<Tensor> values;
  for (const Operand& operand : operands_) values.push_back(operand.value);
  auto found = evaluate(graph, context, values);
  std::vector<Tensor> y(outputs_);
  for (size_t i = 0; i < outputs_; ++i) y[i] = found["y" + std::to_string(i)];
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (auto it = found.find("buffer" + std::to_string(i)); it != found.end()) {
      buffers[i] = it->second;
    }
  }
  return y;
}

std::map<int, Tensor> OneNode::gradients(const std::map<int, Tensor>& dy) {
  Graph graph;
  Builder builder(graph, evaluate_node);
  FakeContext context(builder, *this);
  lower(context, domain_, op_, opset_);
  std::vector<Seed> seeds;
  for (const auto& [i, t] : dy) {
    const Var y = context.results().at(static_cast<size_t>(i));
    if (is_float(y.dtype())) seeds.push_back({y, builder.constant(t)});
  }
  std::map<int, Tensor> result;
  std::vector<Tensor> values;
  std::vector<Var> wrt;
  std::vector<int> places;
  for (size_t i = 0; i < operands_.size(); ++i) {
    values.push_back(operands_[i].value);
    if (operands_[i].known || !is_float(values.back().dtype())) continue;
    wrt.push_back(context.in(i));
    places.push_back(static_cast<int>(i));
    result[places.back()] = {};
  }
  Diagnostics problems;
  const std::vector<Var> dx = differentiate(builder, seeds, wrt, problems);
  problems.throw_if_any(ErrorCode::kInternal, "no gradient");
  for (size_t j = 0; j < dx.size(); ++j) {
    if (dx[j]) graph.add_output("dx" + std::to_string(places[j]), dx[j].id());
  }
  auto found = evaluate(graph, context, values);
  for (int i : places) result[i] = found["dx" + std::to_string(i)];
  return result;
}

std::string OneNode::refusal() {
  Graph graph;
  Builder builder(graph, evaluate_node);
  try {
    FakeContext context(builder, *this);
    lower(context, domain_, op_, opset_);
  } catch (const LowerError& e) {
    return e.kind;
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInvalidModel) return "invalid";
    return e.code() == ErrorCode::kMemory ? "memory" : e.what();
  }
  return "";
}

Tensor reals(std::initializer_list<double> values, Shape shape) {
  return Tensor::from<double>(values, std::move(shape));
}
Tensor reals(std::initializer_list<double> values) {
  return reals(values, {static_cast<int64_t>(values.size())});
}
Tensor real(double value) { return Tensor::scalar(value); }
Tensor ints(std::initializer_list<int64_t> values, Shape shape) {
  return Tensor::from<int64_t>(values, std::move(shape));
}
Tensor ints(std::initializer_list<int64_t> values) {
  return ints(values, {static_cast<int64_t>(values.size())});
}
Tensor bools(std::initializer_list<bool> values, Shape shape) {
  return Tensor::from<bool>(values, std::move(shape));
}

bool same(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (!is_float(a.dtype())) return a.to_ints() == b.to_ints();
  const Tensor p = a.to(DType::kFloat64), q = b.to(DType::kFloat64);
  for (int64_t i = 0; i < p.size(); ++i) {
    const double u = p.data<double>()[static_cast<size_t>(i)];
    const double v = q.data<double>()[static_cast<size_t>(i)];
    if (std::isnan(u) != std::isnan(v)) return false;
    if (!std::isnan(u) && u != v && !(std::abs(u - v) <= 1e-12 * std::max(1.0, std::abs(v)))) {
      return false;
    }
  }
  return true;
}

std::string show(const Tensor& t) {
  if (!t.defined()) return "(none)";
  std::ostringstream out;
  out << dtype_name(t.dtype()) << to_string(t.shape()) << "{";
  const Tensor v = t.to(DType::kFloat64);
  for (int64_t i = 0; i < v.size(); ++i) {
    out << (i > 0 ? "," : "") << v.data<double>()[static_cast<size_t>(i)];
  }
  out << "}";
  return out.str();
}

}  // namespace trainrt
