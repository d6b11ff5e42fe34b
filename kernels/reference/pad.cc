#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

/// Per axis and output position, the offset of the input cell it repeats; -1: the fill value.
struct PadPlan {
  Shape shape;  // padded
  std::vector<std::vector<int64_t>> source;
  uint64_t pattern = 0;  // bytes of the fill value
  int64_t size = 1;      // of the unpadded tensor

  /// The input offset of a row (all axes but the last), or -1.
  int64_t row(int64_t index) const {
    int64_t offset = 0;
    for (size_t d = shape.size() - 1; d-- > 0;) {
      const int64_t step = source[d][static_cast<size_t>(index % shape[d])];
      if (step < 0) return -1;
      offset += step;
      index /= shape[d];
    }
    return offset;
  }
};

/// Position i of a padded axis within the n cells that cropping left over, `before` padding cells
/// lying in front; -1 in constant padding.
int64_t source_cell(PadMode mode, int64_t i, int64_t before, int64_t n) {
  const int64_t cell = i - before;
  if (cell >= 0 && cell < n) return cell;
  if (n == 0) return -1;
  switch (mode) {
    case PadMode::kConstant:
      return -1;
    case PadMode::kEdge:
      return cell < 0 ? 0 : n - 1;
    case PadMode::kWrap:
      return (cell % n + n) % n;
    case PadMode::kReflect:
      break;
  }
  if (n == 1) return 0;
  const int64_t period = 2 * (n - 1);  // 0 1 2 3 2 1 | 0 …
  const int64_t phase = (cell % period + period) % period;
  return phase < n ? phase : period - phase;
}

PadPlan pad_plan(const PadAttrs& attrs, const Shape& whole, const Shape& padded) {
  PadPlan plan;
  plan.shape = padded;
  plan.size = element_count(whole);
  const std::vector<int64_t> strides = row_major_strides(whole);
  for (size_t d = 0; d < whole.size(); ++d) {
    const int64_t crop_front = std::max<int64_t>(0, -attrs.before[d]);
    const int64_t crop_back = std::max<int64_t>(0, -attrs.after[d]);
    const int64_t left = std::max<int64_t>(0, whole[d] - crop_front - crop_back);
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < padded[d]; ++i) {
      const int64_t cell = source_cell(attrs.mode, i, std::max<int64_t>(0, attrs.before[d]), left);
      offsets.push_back(cell < 0 ? -1 : (crop_front + cell) * strides[d]);
    }
    plan.source.push_back(std::move(offsets));
  }
  if (whole.empty()) {  // rank 0 is a row of one cell
    plan.shape = {1};
    plan.source = {{0}};
  }
  return plan;
}

template <typename T>
void pad(const PadPlan& p, const KernelArgs& args) {
  const int64_t width = p.shape.back();
  const int64_t rows = element_count(std::span(p.shape).first(p.shape.size() - 1));
  const std::vector<int64_t>& columns = p.source.back();
  T value;
  std::memcpy(&value, &p.pattern, sizeof(T));
#pragma omp parallel for schedule(static) if (rows * width > kParallel)
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = args.input<T>(0);
    T* y = args.output<T>(0) + r * width;
    const int64_t base = p.row(r);
    for (int64_t i = 0; i < width; ++i) {
      const int64_t column = columns[static_cast<size_t>(i)];
      y[i] = base < 0 || column < 0 ? value : x[base + column];
    }
  }
}

/// Adds every cell of dy to the cell it repeats, in scratch of doubles.
template <typename T>
void pad_grad(const PadPlan& p, const KernelArgs& args) {
  const int64_t width = p.shape.back();
  const int64_t rows = element_count(std::span(p.shape).first(p.shape.size() - 1));
  const std::vector<int64_t>& columns = p.source.back();
  double* sum = static_cast<double*>(args.scratch);
  std::fill_n(sum, p.size, 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t base = p.row(r);
    if (base < 0) continue;
    const T* dy = args.input<T>(0) + r * width;
    for (int64_t i = 0; i < width; ++i) {
      const int64_t column = columns[static_cast<size_t>(i)];
      if (column >= 0) sum[base + column] += dy[i];
    }
  }
  std::transform(sum, sum + p.size, args.output<T>(0), [](double v) { return static_cast<T>(v); });
}

std::unique_ptr<Kernel> plan_pad(const NodeView& node, Scratch&) {
  const PadAttrs& attrs = node.attr<PadAttrs>();
  const DType type = node.outputs[0].dtype;
  PadPlan plan = pad_plan(attrs, node.inputs[0].shape, node.outputs[0].shape);
  Tensor element(type, {});
  element.fill(attrs.value);
  std::memcpy(&plan.pattern, element.raw(), element.bytes());
  return bind_size(type, std::move(plan), []<typename T>() { return pad<T>; });
}

std::unique_ptr<Kernel> plan_pad_grad(const NodeView& node, Scratch& scratch) {
  PadPlan plan = pad_plan(node.attr<PadAttrs>(), node.outputs[0].shape, node.inputs[0].shape);
  scratch.bytes = std::max(scratch.bytes, static_cast<size_t>(plan.size) * sizeof(double));
  return bind_float(node.outputs[0].dtype, std::move(plan),
                    []<typename T>() { return pad_grad<T>; });
}

constexpr KernelRow kRows[] = {
    {Op::kPad, "reference", nullptr, plan_pad},
    {Op::kPadGrad, "reference", takes_floats, plan_pad_grad},
};

}  // namespace

std::span<const KernelRow> reference_pad_kernels() { return kRows; }

}  // namespace trainrt::reference
