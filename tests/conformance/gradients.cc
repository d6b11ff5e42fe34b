#include "tests/conformance/gradients.h"

#include <cmath>
#include <random>
#include <set>
#include <sstream>

#include "frontend/lower.h"
#include "frontend/onnx_dtype.h"
#include "runtime/session.h"

namespace trainrt::conformance {
namespace {

constexpr const char* kSecondReader = "trainrt_second_reader/";

Tensor random_like(const Tensor& t, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> draw(-1, 1);
  Tensor result(DType::kFloat64, t.shape());
  for (double& v : result.data<double>()) v = draw(random);
  return result;
}

double dot(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::kFloat64), y = b.to(DType::kFloat64);
  double sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
    sum += x.data<double>()[i] * y.data<double>()[i];
  }
  return sum;
}

/// Outputs that pass no gradient back by convention: running statistics, and what a dynamic
/// quantization makes.
std::set<std::string> outputs_without_gradient(const onnx::ModelProto& model) {
  std::set<std::string> names;
  for (const onnx::NodeProto& node : model.graph().node()) {
    const bool statistics = node.op_type() == "BatchNormalization";
    if (!statistics && node.op_type() != "DynamicQuantizeLinear") continue;
    for (int i = statistics ? 1 : 0; i < node.output_size(); ++i) names.insert(node.output(i));
  }
  return names;
}

/// A model at some inputs, differentiated with random incoming gradients.
class Differentiated {
 public:
  Differentiated(const onnx::ModelProto& model, const std::string& folder, ModuleOptions options)
      : session_(OnnxModel::from_bytes(bytes_of(model), folder), options),
        silent_(outputs_without_gradient(model)) {}

  /// Sum of dy * output over the float outputs.
  double loss(const TensorMap& inputs) {
    Batch batch = session_.make_batch(inputs);
    StepSpec spec;
    spec.training = false;
    const auto step = session_.prepare(spec, batch);
    session_.load(*step, batch);
    session_.run(*step);
    double sum = 0;
    for (const auto& [name, value] : session_.outputs(*step)) {
      if (is_float(value.dtype()) && !silent_.contains(name)) sum += dot(seed(name, value), value);
    }
    return sum;
  }

  /// By input; an undefined tensor where nothing flows.
  TensorMap gradients(const TensorMap& inputs) {
    Batch batch = session_.make_batch(inputs);
    StepSpec spec;
    spec.training = false;
    spec.seeds = Seeds::kOutputs;
    spec.parameter_grads = false;
    spec.input_grads = true;
    const auto step = session_.prepare(spec, batch);
    session_.load(*step, batch);
    TensorMap seeds;
    for (const Output& o : step->plan->graph().outputs()) {
      const TensorType& type = step->plan->graph().type(o.value);
      if (o.role == OutputRole::kOutput && is_float(type.dtype) && !silent_.contains(o.name)) {
        seeds[o.name] = seed(o.name, Tensor(type.dtype, type.shape));
      }
    }
    session_.load_grads(*step, seeds);
    session_.run(*step);
    TensorMap result;
    for (const Output& o : step->plan->graph().outputs()) {
      if (o.role != OutputRole::kGradient) continue;
      result[o.name] = step->plan->output(o.name, OutputRole::kGradient).clone();
    }
    return result;
  }

  static Tensor seed(const std::string& output, const Tensor& like) {
    return random_like(like, std::hash<std::string>()(output));
  }

 private:
  static std::string bytes_of(const onnx::ModelProto& model) { return model.SerializeAsString(); }

  Session session_;
  std::set<std::string> silent_;
};

ModuleOptions exact() {
  ModuleOptions options;
  options.dtype = DType::kFloat64;
  options.batch_norm = BatchNormPolicy::kGraph;
  options.threads = 1;
  return options;
}

ModuleOptions usual() {
  ModuleOptions options = exact();
  options.dtype = DType::kFloat32;
  return options;
}

bool all_finite(const Tensor& t) {
  const Tensor doubles = t.to(DType::kFloat64);
  for (double v : doubles.data<double>()) {
    if (!std::isfinite(v)) return false;
  }
  return true;
}

/// Names of the float inputs that differences can be taken of; entries of sequences are no values
/// of the file.
std::vector<std::string> float_inputs(const TensorMap& inputs) {
  std::vector<std::string> names;
  for (const auto& [name, value] : inputs) {
    if (!name.ends_with("]") && is_float(value.dtype()) && value.size() > 0 && all_finite(value)) {
      names.push_back(name);
    }
  }
  return names;
}

Tensor moved(const Tensor& x, const Tensor& direction, double by) {
  Tensor result = x.to(DType::kFloat64).clone();
  for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
    result.data<double>()[i] += by * direction.data<double>()[i];
  }
  return result;
}

/// Whether every reader takes the input for something that gradients flow through.
bool is_differentiable(const onnx::ModelProto& model, const std::string& name) {
  for (const onnx::NodeProto& node : model.graph().node()) {
    for (const onnx::OperatorSetIdProto& opset : model.opset_import()) {
      if (opset.domain() != node.domain()) continue;
      const LoweringRow* row = find_lowering(node.domain(), node.op_type(), opset.version());
      for (int i = 0; i < node.input_size(); ++i) {
        if (node.input(i) != name) continue;
        if (row != nullptr && !flows_through(row->differentiable, static_cast<size_t>(i))) {
          return false;
        }
      }
    }
  }
  return true;
}

std::string check_differences(const onnx::ModelProto& proto, Differentiated& model,
                              const TensorMap& inputs, const std::vector<std::string>& names) {
  const TensorMap gradients = model.gradients(inputs);
  const double here = model.loss(inputs);
  for (const std::string& name : names) {
    if (!is_differentiable(proto, name)) continue;
    const Tensor& x = inputs.at(name);
    const Tensor direction = random_like(x, 7);
    double scale = 1e-3;
    const Tensor doubles = x.to(DType::kFloat64);
    for (double v : doubles.data<double>()) scale = std::max(scale, std::abs(v));
    const double h = 1e-6 * scale;
    auto loss_at = [&](double by) {
      TensorMap other = inputs;
      other[name] = moved(x, direction, by);
      return model.loss(other);
    };
    const double up = loss_at(h), down = loss_at(-h);
    const double right = (up - here) / h, left = (here - down) / h;
    const double size =
        std::max({std::abs(right), std::abs(left), 1e-6 * std::abs(here) / scale, 1e-9});
    if (!std::isfinite(up) || !std::isfinite(down) || std::abs(right - left) > 1e-3 * size)
      continue;
    const auto found = gradients.find(name);
    const double given =
        found == gradients.end() || !found->second.defined() ? 0 : dot(found->second, direction);
    const double numeric = (up - down) / (2 * h);
    // A jump looks the same from both sides, but steeper from nearby.
    const double nearby = (loss_at(h / 2) - loss_at(-h / 2)) / h;
    if (std::abs(nearby - numeric) > 0.1 * std::abs(numeric)) continue;
    // Rounding of the loss over the step, and the curvature that the two sides show.
    const double noise = 1e-15 * std::abs(here) / h * 16 + std::abs(right - left);
    if (std::abs(given - numeric) <= 1e-5 * size + noise) continue;
    std::ostringstream text;
    text << "gradient of " << name << " along a direction is " << given << ", differences give "
         << numeric;
    return text.str();
  }
  return "";
}

/// The model with one input for all float inputs of the same shape; empty when there are no two.
std::string share_inputs(onnx::ModelProto& model, const TensorMap& inputs,
                         const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t j = i + 1; j < names.size(); ++j) {
      const Tensor &a = inputs.at(names[i]), &b = inputs.at(names[j]);
      if (a.shape() != b.shape() || a.dtype() != b.dtype()) continue;
      for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
        for (std::string& input : *node.mutable_input()) {
          if (input == names[j]) input = names[i];
        }
      }
      return names[i];
    }
  }
  return "";
}

bool only_integers(const onnx::ModelProto& model) {
  for (const onnx::ValueInfoProto& output : model.graph().output()) {
    DType dtype;
    const int type = output.type().tensor_type().elem_type();
    if (!output.type().has_tensor_type() || !dtype_from_onnx(type, &dtype) || is_float(dtype)) {
      return false;
    }
  }
  return true;
}

/// Every float input goes to a further node as well, x * x, whose value becomes an output.
void add_second_readers(onnx::ModelProto& model, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    onnx::NodeProto* node = model.mutable_graph()->add_node();
    node->set_op_type("Mul");
    node->add_input(name);
    node->add_input(name);
    node->add_output(kSecondReader + name);
    onnx::ValueInfoProto* output = model.mutable_graph()->add_output();
    for (const onnx::ValueInfoProto& input : model.graph().input()) {
      if (input.name() == name) *output = input;
    }
    output->set_name(kSecondReader + name);
    output->mutable_type()->mutable_tensor_type()->clear_shape();
  }
}

std::string check_second_readers(const onnx::ModelProto& model, const std::string& folder,
                                 const TensorMap& inputs, const std::vector<std::string>& names,
                                 const ModuleOptions& options) {
  const TensorMap once = Differentiated(model, folder, options).gradients(inputs);
  onnx::ModelProto twice = model;
  add_second_readers(twice, names);
  const TensorMap both = Differentiated(twice, folder, options).gradients(inputs);
  for (const std::string& name : names) {
    const Tensor x = inputs.at(name).to(options.dtype).to(DType::kFloat64);
    const Tensor dy = Differentiated::seed(kSecondReader + name, x);
    const auto alone = once.find(name), given = both.find(name);
    if (given == both.end()) return "with a second reader " + name + " has no gradient";
    const Tensor sum = given->second.to(DType::kFloat64);
    double largest = 0;
    for (double v : sum.data<double>()) {
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    }
    const double unit = options.dtype == DType::kFloat64 ? 1e-15 : 1.2e-7;
    Tensor first(DType::kFloat64, x.shape());
    first.fill(0);
    if (alone != once.end()) first = alone->second.to(DType::kFloat64);
    for (size_t i = 0; i < static_cast<size_t>(x.size()); ++i) {
      const double a = first.data<double>()[i];
      const double b = 2 * x.data<double>()[i] * dy.data<double>()[i];
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      const double tolerance = unit * (16 * std::max(std::abs(a), std::abs(b)) + largest);
      if (std::abs(sum.data<double>()[i] - (a + b)) <= tolerance) continue;
      std::ostringstream text;
      text << "with a second reader of " << name << " element " << i << " of its gradient is "
           << sum.data<double>()[i] << ", expected " << a << " + " << b;
      return text.str();
    }
  }
  return "";
}

}  // namespace

std::string check_gradients(const onnx::ModelProto& model, const std::string& folder,
                            const TensorMap& inputs) {
  const std::vector<std::string> names = float_inputs(inputs);
  if (names.empty() || only_integers(model)) return "";
  Differentiated plain(model, folder, exact());
  std::string fault = check_differences(model, plain, inputs, names);
  if (!fault.empty()) return fault;
  for (const ModuleOptions& options : {exact(), usual()}) {
    fault = check_second_readers(model, folder, inputs, names, options);
    if (!fault.empty()) return fault;
  }
  onnx::ModelProto shared = model;
  const std::string one = share_inputs(shared, inputs, names);
  if (one.empty()) return "";
  try {
    Differentiated same(shared, folder, exact());
    fault = check_differences(shared, same, inputs, {one});
  } catch (const Error&) {
    return "";  // the two inputs mean different things
  }
  return fault.empty() ? "" : "with one value for two inputs: " + fault;
}

}  // namespace trainrt::conformance
