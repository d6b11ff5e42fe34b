// A node with operands for comparing kernel rows with the reference row.
#ifndef TRAINRT_TESTS_KERNELS_ROW_CASE_H_
#define TRAINRT_TESTS_KERNELS_ROW_CASE_H_

#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace trainrt {

/// Random contents in [lo, hi] (whole numbers for integer types), or given ones.
struct Operand {
  Shape shape;
  DType dtype = DType::kFloat32;
  double lo = -2, hi = 2;
  Tensor value;  // used when defined

  Operand(Shape s) : shape(std::move(s)) {}  // NOLINT(google-explicit-constructor)
  Operand(Shape s, double low, double high) : shape(std::move(s)), lo(low), hi(high) {}
  Operand(Shape s, DType t, double low, double high)
      : shape(std::move(s)), dtype(t), lo(low), hi(high) {}
  explicit Operand(Tensor v) : shape(v.shape()), dtype(v.dtype()), value(std::move(v)) {}
};

inline Operand ids(Shape shape, int64_t lo, int64_t hi) {
  return {std::move(shape), DType::kInt64, static_cast<double>(lo), static_cast<double>(hi)};
}

struct RowCase {
  Op op;
  std::vector<Operand> inputs;
  Attrs attrs = NoAttrs{};
  uint32_t blocked_inputs = 0, blocked_outputs = 0;  // bit i: operand i is in nChw16c
  uint32_t bf16_inputs = 0, bf16_outputs = 0;        // bit i: operand i is kept as bfloat16
};

/// How results may differ from the reference: by at most relative * max|reference| (0: not at all),
/// or, per element, by relative * |reference| + 1e-7 * max|reference|. Results kept as bfloat16 may
/// be off by their rounding besides, 2^-8 * |reference|.
struct Tolerance {
  double relative = 0;
  bool per_element = false;
};
inline constexpr Tolerance kExact{0, false};
inline constexpr Tolerance kClose{1e-5, false};
inline constexpr Tolerance kTight{1e-6, true};

/// Aligned bytes with a guard behind them.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  Buffer(const void* from, size_t bytes);
  unsigned char* data() { return storage_.data() + offset_; }
  const unsigned char* data() const { return storage_.data() + offset_; }
  size_t bytes() const { return bytes_; }
  bool intact() const;
  bool operator==(const Buffer& other) const;

 private:
  size_t bytes_, offset_ = 0;
  std::vector<unsigned char> storage_;
};

/// A plain tensor's bytes in the layout of `type`.
Buffer stored(const void* plain, const TensorType& type);

struct TestNode {
  RowCase c;
  std::vector<Tensor> inputs;
  std::vector<TensorType> in, out;

  explicit TestNode(const RowCase& row);
  NodeView view() const { return {c.op, c.attrs, in, out}; }
  /// The same node on plain operands, with float32 in place of bfloat16.
  TestNode plain() const;
  /// For messages.
  std::string text() const;
};

bool takes(const KernelRow& row, const NodeView& view);
/// Outputs of one run on the CPU; shared >= 0: the first output lies on that input.
std::vector<Buffer> run_on_cpu(const KernelRow& row, const TestNode& node, int shared = -1);
/// What the reference row makes of the node, in the layouts of its outputs.
std::vector<Buffer> reference_results(const TestNode& node);
/// Fails the running test where the bytes of a result differ by more than the tolerance.
void compare(const Buffer& got, const Buffer& want, const TensorType& type, Tolerance tolerance);

}  // namespace trainrt

#endif  // TRAINRT_TESTS_KERNELS_ROW_CASE_H_
