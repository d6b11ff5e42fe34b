#include "tests/conformance/run_case.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "runtime/session.h"
#include "tests/conformance/gradients.h"
#include "tests/conformance/scope.h"

namespace trainrt::conformance {
namespace {

struct Way {
  const char* name;
  DType working;
  Backend backend;
};

/// Whole networks take minutes in plain loops. An integer that was rounded from a float of the
/// file's type may come out otherwise in float64.
std::vector<Way> ways(const Case& c, const DataSet& data) {
  if (c.name == "node/test_bitcast_float64_to_int64") {  // float32 has not the bits of a double
    return {{"reference, float64", DType::kFloat64, Backend::kReference}};
  }
  std::vector<Way> list = {{"default kernels", DType::kFloat32, Backend::kAuto}};
  if (!c.outputs_beside.empty()) return list;
  list.push_back({"reference, float32", DType::kFloat32, Backend::kReference});
  bool doubles = false, integers = false;
  for (const TensorMap* values : {&data.inputs, &data.outputs}) {
    for (const auto& [name, value] : *values) doubles |= value.dtype() == DType::kFloat64;
  }
  for (const auto& [name, value] : data.outputs) integers |= is_integer(value.dtype());
  if (doubles || !integers) {
    list.push_back({"reference, float64", DType::kFloat64, Backend::kReference});
  }
  return list;
}

using Outputs = std::vector<std::pair<std::string, Tensor>>;

/// The file's own function.
Outputs compute(const Case& c, const TensorMap& inputs, const Way& way, bool random) {
  ModuleOptions options;
  options.dtype = way.working;
  options.batch_norm = BatchNormPolicy::kGraph;
  options.backend = way.backend;
  options.threads = 1;
  Session session(OnnxModel::load(c.model.string()), options);
  StepSpec spec;
  spec.training = random;
  Batch batch = session.make_batch(inputs);
  const auto step = session.prepare(spec, batch);
  session.load(*step, batch);
  session.run(*step);
  return session.outputs(*step);
}

/// Half-precision results are right up to two units in the last place.
Tolerance tolerance_for(DType expected, Tolerance t) {
  if (expected == DType::kFloat16) t.relative = std::max(t.relative, std::ldexp(1.0, -9));
  if (expected == DType::kBFloat16) t.relative = std::max(t.relative, std::ldexp(1.0, -6));
  return t;
}

std::string compare_floats(const Tensor& given, const Tensor& expected, const Tolerance& t) {
  // What is beyond the working type's range is infinite there.
  const Tensor a = given.to(DType::kFloat64);
  const Tensor b = expected.to(given.dtype()).to(DType::kFloat64);
  // Sums in float32, on either side, are off by some units of their largest terms.
  double sums = 0;
  for (double v : b.data<double>()) {
    if (std::isfinite(v) && expected.dtype() != DType::kFloat64) {
      sums = std::max(sums, 1e-6 * std::abs(v));
    }
  }
  for (size_t i = 0; i < static_cast<size_t>(a.size()); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (std::isfinite(y) &&
        std::abs(x - y) <= std::max(t.absolute, sums) + t.relative * std::abs(y)) {
      continue;
    }
    std::ostringstream text;
    text << "element " << i << " is " << x << ", expected " << y;
    return text.str();
  }
  return "";
}

std::string compare_integers(const Tensor& given, const Tensor& expected) {
  const std::vector<int64_t> a = given.to_ints(), b = expected.to_ints();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", expected " +
           std::to_string(b[i]);
  }
  return "";
}

/// Draws of 0 and 1 are such; what Dropout kept is the input times the factor that the expected
/// output shows.
std::string compare_random(const Tensor& given, const Tensor& expected, const TensorMap& inputs) {
  const Tensor a = given.to(DType::kFloat64), b = expected.to(DType::kFloat64);
  const auto y = a.data<double>(), example = b.data<double>();
  auto is_bit = [](double v) { return v == 0 || v == 1; };
  const bool bits = std::all_of(example.begin(), example.end(), is_bit);
  Tensor source;
  for (const auto& [name, value] : inputs) {
    if (!source.defined() && is_float(value.dtype()) && value.shape() == given.shape()) {
      source = value.to(DType::kFloat64);
    }
  }
  double factor = 0, lost = 0;
  for (size_t i = 0; source.defined() && i < example.size(); ++i) {
    if (example[i] != 0) factor = example[i] / source.data<double>()[i];
    lost += example[i] == 0 ? 1 : 0;
  }
  for (size_t i = 0; i < y.size(); ++i) {
    if (bits ? is_bit(y[i])
             : !source.defined() || (y[i] == 0 && lost > 0) ||
                   std::abs(y[i] - factor * source.data<double>()[i]) <= 1e-5 * std::abs(y[i])) {
      continue;
    }
    return "element " + std::to_string(i) + " is " + std::to_string(y[i]) +
           ", no possible draw (expected, say, " + std::to_string(example[i]) + ")";
  }
  return "";
}

/// `inputs`: null unless the case is random.
std::string compare(const Tensor& given, const Tensor& expected, const Tolerance& t,
                    const TensorMap* inputs) {
  const bool floats = is_float(expected.dtype());
  if (floats ? !is_float(given.dtype()) : given.dtype() != expected.dtype()) {
    return "is " + std::string(dtype_name(given.dtype())) + ", expected " +
           std::string(dtype_name(expected.dtype()));
  }
  if (given.shape() != expected.shape()) {
    return "has shape " + to_string(given.shape()) + ", expected " + to_string(expected.shape());
  }
  if (inputs != nullptr) return compare_random(given, expected, *inputs);
  return floats ? compare_floats(given, expected, tolerance_for(expected.dtype(), t))
                : compare_integers(given, expected);
}

std::string compare(const Outputs& given, const TensorMap& expected, const Tolerance& t,
                    const TensorMap* inputs) {
  std::string faults;
  auto fault = [&](const std::string& name, const std::string& text) {
    faults += (faults.empty() ? "" : "; ") + ("output " + name + " " + text);
  };
  size_t found = 0;
  for (const auto& [name, value] : given) {
    const auto it = expected.find(name);
    if (it == expected.end()) {
      fault(name, "is not expected");
      continue;
    }
    ++found;
    const std::string text = compare(value, it->second, t, inputs);
    if (!text.empty()) fault(name, text);
  }
  if (found != expected.size()) {
    faults += (faults.empty() ? "" : "; ") + std::to_string(expected.size() - found) +
              " outputs are missing";
  }
  return faults;
}

/// Closer than the cases ask for, save where the expected numbers are rounded.
Tolerance tolerance(const Case& c) {
  static const std::set<std::string> rounded = {
      "node/test_averagepool_2d_ceil_last_window_starts_on_pad", "node/test_gridsample_bicubic",
      "node/test_roialign_aligned_false", "node/test_roialign_aligned_true"};
  if (rounded.contains(c.name)) return c.tolerance;
  return {std::min(c.tolerance.relative, 1e-5), c.tolerance.absolute};
}

std::string one_line(std::string text) {
  for (char& ch : text) {
    if (ch == '\n' || ch == '\t') ch = ' ';
  }
  return text;
}

}  // namespace

std::string run_case(const Case& c, const onnx::ModelProto& model) {
  const bool random = is_random(model);
  try {
    const std::vector<DataSet> sets = read_data(c, model);
    if (sets.empty()) return "there is no data";
    for (const DataSet& data : sets) {
      if (data.outputs.empty()) return "there are no expected outputs";
      for (const Way& way : ways(c, data)) {
        const std::string fault = compare(compute(c, data.inputs, way, random), data.outputs,
                                          tolerance(c), random ? &data.inputs : nullptr);
        if (!fault.empty()) return std::string(way.name) + ": " + one_line(fault);
      }
      if (random || !c.outputs_beside.empty()) continue;
      const std::string fault = check_gradients(model, c.model.parent_path().string(), data.inputs);
      if (!fault.empty()) return one_line(fault);
    }
    return "";
  } catch (const std::exception& e) {
    return one_line(e.what());
  }
}

}  // namespace trainrt::conformance
