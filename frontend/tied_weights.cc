#include "frontend/tied_weights.h"

#include <algorithm>
#include <cstring>

#include "frontend/parameters.h"

namespace trainrt {
namespace {

bool is_embedding(const std::vector<WeightReader>& readers) {
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [](const WeightReader& r) {
    return r.node->op == "Gather" && r.input == 0;
  });
}

bool is_projection(const std::vector<WeightReader>& readers) {
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [](const WeightReader& r) {
    return (r.node->op == "MatMul" || r.node->op == "Gemm") && r.input == 1;
  });
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// All elements alike: such values are no sign of anything.
bool is_constant(const Tensor& t) {
  const auto* bytes = static_cast<const char*>(t.raw());
  const size_t size = dtype_size(t.dtype());
  return std::memcmp(bytes, bytes + size, t.bytes() - size) == 0;
}

}  // namespace

Tensor transposed(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor result(matrix.dtype(), {columns, rows});
  const size_t size = dtype_size(matrix.dtype());
  const auto* from = static_cast<const char*>(matrix.raw());
  auto* to = static_cast<char*>(result.raw());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      std::memcpy(to + static_cast<size_t>(j * rows + i) * size,
                  from + static_cast<size_t>(i * columns + j) * size, size);
    }
  }
  return result;
}

void find_tied_weights(ImportedModel& m, bool tie) {
  const auto readers = weight_readers(m);
  std::vector<size_t> embeddings, projections;
  for (size_t i = 0; i < m.weights.size(); ++i) {
    const ImportedWeight& w = m.weights[i];
    if (w.use != WeightUse::kParameter || w.info.shape.size() != 2) continue;
    if (w.stored.value.size() < 2 || is_constant(w.stored.value)) continue;
    if (is_embedding(readers[i])) embeddings.push_back(i);
    if (is_projection(readers[i])) projections.push_back(i);
  }
  for (size_t e : embeddings) {
    const Tensor& table = m.weights[e].stored.value;
    for (size_t p : projections) {
      ImportedWeight& w = m.weights[p];
      if (w.use != WeightUse::kParameter || w.stored.value.size() != table.size()) continue;
      const bool turned = same_bytes(transposed(table), w.stored.value);
      if (!turned && !same_bytes(table, w.stored.value)) continue;
      const std::string& name = m.weights[e].info.name;
      w.tied_to = static_cast<int32_t>(e);
      w.tied_transposed = turned;
      if (tie) {
        w.use = WeightUse::kTied;
        w.info.reason = "one weight with '" + name + "'" + (turned ? ", transposed" : "");
      } else {
        m.warnings.push_back("'" + name + "' and '" + w.info.name + "' hold the same values" +
                             (turned ? ", transposed" : "") +
                             ": they train as two weights unless tied (--tie-weights)");
      }
    }
  }
}

}  // namespace trainrt
