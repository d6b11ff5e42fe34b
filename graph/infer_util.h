// Shared by the families of infer_types. Private to graph/.
#ifndef TRAINRT_GRAPH_INFER_UTIL_H_
#define TRAINRT_GRAPH_INFER_UTIL_H_

#include <span>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/attrs.h"
#include "graph/infer.h"
#include "graph/types.h"

namespace trainrt::infer {

/// A node without its graph.
struct Args {
  Op op;
  std::span<const TensorType> in;
  const Attrs& attrs;

  template <typename A>
  const A& attr() const {
    return std::get<A>(attrs);
  }
};

using Types = std::vector<TensorType>;

struct Row {
  Op op;
  Types (*infer)(const Args&);
};

// One list per family; together they hold every op.
std::span<const Row> elementwise_rows();
std::span<const Row> shape_rows();
std::span<const Row> indexing_rows();
std::span<const Row> compute_rows();
std::span<const Row> spatial_rows();
std::span<const Row> training_rows();
std::span<const Row> recurrent_rows();

/// Largest magnitude of strides, pads, counts: sums and products of two of them fit 64 bits.
inline constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

[[noreturn]] void fail_with(const std::string& message);

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  fail_with(out.str());
}

/// Checks rank, dims and size of a shape, named in the message.
void check_shape(std::span<const int64_t> shape, std::string_view what);
void check_axis(int64_t axis, int64_t rank, std::string_view what = "axis");
void check_length(size_t length, int64_t wanted, std::string_view what);
void check_same_shape(const TensorType& got, const Shape& wanted, std::string_view what);
void check_same_type(const TensorType& got, const TensorType& wanted, std::string_view what);
void check_same_dtype(const Args& a, size_t first, size_t second);
void check_float(const Args& a, size_t i);
void check_numeric(const Args& a, size_t i);
void check_index_type(const Args& a, size_t i);
void check_rank(const Args& a, size_t i, int64_t at_least);
/// `shape` attributes that only the gradient of an op uses stay empty elsewhere.
void check_no_shape(const Shape& shape);
/// Whether a double is a value of the type.
bool representable(double value, DType dtype);

}  // namespace trainrt::infer

#endif  // TRAINRT_GRAPH_INFER_UTIL_H_
