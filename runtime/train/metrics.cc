#include "runtime/train/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainrt {
namespace {

constexpr int64_t kIgnored = -100;
constexpr int64_t kTop = 5;

// Rows of classes: element c of row r lies at base(r) + c * stride.
template <typename T>
void add_class_metrics(const LossTerm& term, const Tensor& output, const Tensor& target,
                       MetricSums& sums) {
  const Shape& shape = output.shape();
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t axis = term.spec.class_axis.value_or(rank == 4 || rank == 5 ? 1 : rank - 1);
  if (axis < 0) axis += rank;
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < rank; ++i) inner *= shape[static_cast<size_t>(i)];
  const int64_t classes = shape[static_cast<size_t>(axis)];
  const std::span<const int64_t> ids = target.data<int64_t>();
  const T* y = static_cast<const T*>(output.raw());
  const bool logits = term.spec.kind == LossKind::kCrossEntropy;
  for (size_t r = 0; r < ids.size(); ++r) {
    const int64_t id = ids[r];
    if (id == kIgnored) continue;
    const T* row =
        y + static_cast<int64_t>(r) / inner * classes * inner + static_cast<int64_t>(r) % inner;
    const T own = row[id * inner];
    // Classes that beat the right one; on a tie the lower index wins, as in ArgMax and TopK.
    int64_t better = 0;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t c = 0; c < classes; ++c) {
      const T value = row[c * inner];
      better += value > own || (value == own && c < id);
      top = std::max(top, static_cast<double>(value));
    }
    if (own == own) {
      sums.correct += better == 0;
      sums.correct5 += better < kTop;
    }
    ++sums.classified;
    double log_sum = 0;
    if (logits) {
      double total = 0;
      for (int64_t c = 0; c < classes; ++c)
        total += std::exp(static_cast<double>(row[c * inner]) - top);
      log_sum = top + std::log(total);
    }
    sums.nll += log_sum - static_cast<double>(own);
  }
}

template <typename T>
void add_value_metrics(const LossTerm& term, const Tensor& output, const Tensor& target,
                       MetricSums& sums) {
  const std::span<const T> y = output.data<T>(), t = target.data<T>();
  const bool binary =
      term.spec.kind == LossKind::kBce || term.spec.kind == LossKind::kBceWithLogits;
  const double threshold = term.spec.kind == LossKind::kBce ? 0.5 : 0.0;
  for (size_t i = 0; i < y.size() && i < t.size(); ++i) {
    if (binary) {
      sums.correct += (static_cast<double>(y[i]) > threshold) == (static_cast<double>(t[i]) > 0.5);
    } else {
      sums.absolute_error += std::abs(static_cast<double>(y[i]) - static_cast<double>(t[i]));
    }
  }
  (binary ? sums.classified : sums.elements) += output.size();
}

}  // namespace

void add_metrics(const LossTerm& term, const Tensor& output, const Tensor& target,
                 MetricSums& sums) {
  if (term.target.empty()) return;
  with_float_type(output.dtype(), [&](auto sample) {
    using T = decltype(sample);
    if (target_is_class_ids(term.spec.kind)) {
      add_class_metrics<T>(term, output, target, sums);
      sums.has_classes = true;
    } else {
      add_value_metrics<T>(term, output, target, sums);
    }
  });
}

MetricSums& MetricSums::operator+=(const MetricSums& other) {
  correct += other.correct;
  correct5 += other.correct5;
  classified += other.classified;
  absolute_error += other.absolute_error;
  elements += other.elements;
  nll += other.nll;
  has_classes |= other.has_classes;
  return *this;
}

bool MetricSums::has(const std::string& metric) const {
  if (metric == "accuracy") return classified > 0;
  if (metric == "top5" || metric == "perplexity") return classified > 0 && has_classes;
  if (metric == "mae") return elements > 0;
  throw Error(ErrorCode::kUsage,
              "there is no metric '" + metric + "'; known: accuracy, top5, mae, perplexity");
}

double MetricSums::value(const std::string& metric) const {
  if (!has(metric)) {
    throw Error(ErrorCode::kUsage, "metric " + metric + " does not go with the losses given");
  }
  const auto n = static_cast<double>(classified);
  if (metric == "accuracy") return correct / n;
  if (metric == "top5") return correct5 / n;
  if (metric == "perplexity") return std::exp(nll / n);
  return absolute_error / static_cast<double>(elements);
}

}  // namespace trainrt
