#include "runtime/cli/evaluation.h"

#include <algorithm>
#include <cstring>

#include "trainrt/error.h"

namespace trainrt::cli {

Evaluation evaluate_all(Trainer& trainer, BatchSource& source,
                        const std::function<void(TensorMap*)>& adjust,
                        const std::function<void(const EvalResult&)>& on_batch) {
  Evaluation out;
  double sum = 0;
  for (int64_t i = 0; i < source.loader().batches_per_epoch(); ++i) {
    TensorMap batch = source.batch(0, i);
    adjust(&batch);
    const EvalResult result = trainer.evaluate(batch);
    const int64_t samples = std::max<int64_t>(result.samples, 1);
    sum += result.loss * static_cast<double>(samples);
    out.samples += samples;
    out.metrics += result.metrics;
    if (on_batch) on_batch(result);
  }
  out.loss = sum / static_cast<double>(std::max<int64_t>(out.samples, 1));
  return out;
}

std::vector<std::string> parse_metrics(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, comma - at);
    if (name != "accuracy" && name != "top5" && name != "mae" && name != "perplexity") {
      throw Error(ErrorCode::kUsage,
                  "--metrics: accuracy, top5, mae and perplexity are known, not '" + name + "'");
    }
    out.push_back(name);
    at = comma + 1;
  }
  return out;
}

void OutputCollector::add(const Outputs& outputs, int64_t samples) {
  if (names_.empty()) {
    for (const auto& [name, tensor] : outputs) names_.push_back(name);
    parts_.resize(names_.size());
    by_sample_.assign(names_.size(), true);
  }
  size_t i = 0;
  for (const auto& [name, tensor] : outputs) {
    if (tensor.rank() == 0 || tensor.shape()[0] != samples) by_sample_[i] = false;
    parts_[i++].push_back(tensor);
  }
}

std::vector<std::pair<std::string, Tensor>> OutputCollector::take() {
  std::vector<std::pair<std::string, Tensor>> out;
  for (size_t i = 0; i < names_.size(); ++i) {
    std::vector<Tensor>& parts = parts_[i];
    if (parts.size() == 1) {
      out.emplace_back(names_[i], parts[0]);
      continue;
    }
    Shape shape = parts[0].shape();
    int64_t rows = 0;
    for (const Tensor& part : parts) {
      const bool alike = by_sample_[i] && part.rank() == static_cast<int64_t>(shape.size()) &&
                         std::equal(shape.begin() + 1, shape.end(), part.shape().begin() + 1);
      if (!alike) {
        throw Error(ErrorCode::kRuntime,
                    "output '" + names_[i] + "' of shape " + to_string(part.shape()) +
                        " cannot be put together from several batches; use --batch all");
      }
      rows += part.shape()[0];
    }
    shape[0] = rows;
    Tensor whole(parts[0].dtype(), shape);
    char* to = static_cast<char*>(whole.raw());
    for (const Tensor& part : parts) {
      if (part.bytes() > 0) std::memcpy(to, part.raw(), part.bytes());
      to += part.bytes();
    }
    out.emplace_back(names_[i], std::move(whole));
  }
  return out;
}

}  // namespace trainrt::cli
