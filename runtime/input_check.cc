#include "runtime/input_check.h"

#include <limits>
#include <span>
#include <type_traits>
#include <utility>

namespace trainrt {
namespace {

/// `name` says what the tensor is for, `why` what is wrong beside what can be seen from the types.
[[noreturn]] void refuse(const std::string& name, const std::string& expected, const Tensor& given,
                         const std::string& why = "") {
  throw Error(ErrorCode::kInput,
              name + ": expected " + expected + ", given " +
                  (given.defined() ? to_string(TensorType{given.dtype(), given.shape()})
                                   : std::string("an undefined tensor")) +
                  (why.empty() ? "" : ": " + why));
}

// Every integer of the tensor as a signed 64-bit number, with uint64 values beyond that refused.
template <typename F>
void for_each_integer(const Tensor& t, F&& f) {
  with_type(t.dtype(), [&](auto sample) {
    using T = decltype(sample);
    const T* x = static_cast<const T*>(t.raw());
    for (int64_t i = 0; i < t.size(); ++i) {
      if constexpr (std::is_same_v<T, uint64_t>) {
        const bool fits = x[i] <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
        f(i, fits ? static_cast<int64_t>(x[i]) : int64_t{-1}, fits);
      } else {
        f(i, static_cast<int64_t>(x[i]), true);
      }
    }
  });
}

bool fits_integer(int64_t value, DType type) {
  bool fits = false;
  with_type(type, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) fits = std::in_range<T>(value);
  });
  return fits;
}

/// `fail` gets the reason when a value does not fit.
template <typename F>
Tensor convert_integers(DType to, const Tensor& given, F&& fail) {
  for_each_integer(given, [&](int64_t i, int64_t value, bool exact) {
    if (!exact || !fits_integer(value, to)) {
      fail("element " + std::to_string(i) +
           (exact ? " = " + std::to_string(value) : std::string()) + " does not fit");
    }
  });
  return given.to(to);
}

}  // namespace

Tensor fit_input(const std::string& name, const Port& port, DType working, const Tensor& given) {
  const auto fail = [&](const std::string& why = "") {
    refuse("input " + name, declared_type(port), given, why);
  };
  if (!given.defined() || !shape_fits(port, given.shape())) fail();
  const DType declared = port.dtype;
  if (is_float(declared)) {
    if (!is_float(given.dtype())) fail();
    return given.dtype() == working ? given : given.to(working);
  }
  if (given.dtype() == declared) return given;
  if (!is_integer(declared) || !is_integer(given.dtype())) fail();
  return convert_integers(declared, given, fail);
}

Tensor fit_gradient(const std::string& output, const TensorType& expected, const Tensor& given) {
  if (!given.defined() || !is_float(given.dtype()) || given.shape() != expected.shape) {
    refuse("gradient of output " + output, to_string(expected), given);
  }
  return given.dtype() == expected.dtype ? given : given.to(expected.dtype);
}

Tensor fit_target(const LossTerm& term, DType working, const Tensor& given) {
  const bool ids = target_is_class_ids(term.spec.kind);
  const auto fail = [&](const std::string& why = "") {
    TensorType expected = target_type(term.spec, term.output_type);
    if (!ids) expected.dtype = working;
    refuse("loss " + std::string(loss_name(term.spec.kind)) + " of output " + term.output + ", '" +
               term.target + "'",
           to_string(expected) + (ids ? " of class ids" : ""), given, why);
  };
  if (!given.defined()) fail();
  if (ids) {
    if (!is_integer(given.dtype())) fail();
    return given.dtype() == DType::kInt64 ? given : convert_integers(DType::kInt64, given, fail);
  }
  if (is_float(given.dtype())) return given.dtype() == working ? given : given.to(working);
  const int64_t exact = int64_t{1} << (working == DType::kFloat64 ? 53 : 24);
  for_each_integer(given, [&](int64_t i, int64_t value, bool fits) {
    if (!fits || value > exact || value < -exact) {
      fail("element " + std::to_string(i) + " is not exact in that type");
    }
  });
  return given.to(working);
}

void check_class_ids(const LossTerm& term, const Tensor& target) {
  constexpr int64_t kIgnored = -100;
  const Shape& output = term.output_type.shape;
  const TensorType expected = target_type(term.spec, term.output_type);
  // The class axis is the one that target_type() took out.
  const int64_t rest = expected.size(), all = term.output_type.size();
  int64_t classes = rest > 0 ? all / rest : 0;
  if (rest == 0) {
    const auto axis = term.spec.class_axis.value_or(
        output.size() >= 4 && output.size() <= 5 ? 1 : static_cast<int64_t>(output.size()) - 1);
    classes =
        output[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(output.size()) : axis)];
  }
  const std::span<const int64_t> ids = target.data<int64_t>();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kIgnored || (ids[i] >= 0 && ids[i] < classes)) continue;
    throw Error(ErrorCode::kInput, "target value " + std::to_string(ids[i]) + " (element " +
                                       std::to_string(i) + " of '" + term.target + "'): output " +
                                       term.output + " " + to_string(term.output_type) + " has " +
                                       std::to_string(classes) +
                                       " classes; ids run from 0, -100 is ignored");
  }
}

}  // namespace trainrt
