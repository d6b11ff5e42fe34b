#include "tests/kernels/row_case.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "graph/infer.h"
#include "kernels/blocked_view.h"

namespace trainrt {
namespace {

constexpr size_t kGuard = 256;
constexpr unsigned char kGuardByte = 0xA5;

Tensor make_tensor(const Operand& o, uint32_t seed) {
  if (o.value.defined()) return o.value;
  Tensor t(o.dtype, o.shape);
  std::mt19937 random(seed);
  with_type(o.dtype, [&]<typename T>(T) {
    for (T& v : t.data<T>()) {
      if constexpr (std::is_floating_point_v<T>) {
        v = static_cast<T>(std::uniform_real_distribution<double>(o.lo, o.hi)(random));
      } else {
        v = static_cast<T>(std::uniform_int_distribution<int64_t>(
            static_cast<int64_t>(o.lo), static_cast<int64_t>(o.hi))(random));
      }
    }
  });
  return t;
}

/// Whether a stored element pads the last block of channels.
bool is_padding(const TensorType& type, size_t i) {
  if (type.layout == Layout::kPlain) return false;
  const int64_t blocks = (type.shape[1] + 15) / 16, at = static_cast<int64_t>(i);
  const int64_t block = at / 16 / (type.shape[2] * type.shape[3]) % blocks;
  return block * 16 + at % 16 >= type.shape[1];
}

/// `rounding`: allowed relative to the reference, besides the tolerance.
void compare_values(const Buffer& got, const Buffer& want, const TensorType& type,
                    Tolerance tolerance, double rounding) {
  if ((tolerance.relative == 0 && rounding == 0) || type.dtype != DType::kFloat32) {
    if (got == want) return;
    if (type.dtype != DType::kFloat32) FAIL("bytes differ from the reference");
  }
  const auto* a = reinterpret_cast<const float*>(got.data());
  const auto* b = reinterpret_cast<const float*>(want.data());
  const size_t n = want.bytes() / sizeof(float);
  double largest = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::isfinite(b[i])) largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  for (size_t i = 0; i < n; ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (is_padding(type, i)) FAIL("padding of channels is not 0");
    const double magnitude = std::fabs(static_cast<double>(b[i]));
    const double allowed = tolerance.per_element ? tolerance.relative * magnitude + 1e-7 * largest
                                                 : tolerance.relative * largest;
    const double error = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (error <= allowed + rounding * magnitude) continue;
    INFO("element " << i << " of " << n << ": " << a[i] << ", reference " << b[i] << ", allowed "
                    << allowed);
    FAIL("differs from the reference");
  }
}

Buffer widened(const Buffer& narrow) {
  const int64_t n = static_cast<int64_t>(narrow.bytes() / sizeof(uint16_t));
  const Tensor values =
      Tensor::view(const_cast<unsigned char*>(narrow.data()), DType::kBFloat16, {n});
  return Buffer(values.to(DType::kFloat32).raw(), 2 * narrow.bytes());
}

}  // namespace

Buffer::Buffer(size_t bytes) : bytes_(bytes), storage_(bytes + kGuard + 64, kGuardByte) {
  const auto address = reinterpret_cast<uintptr_t>(storage_.data());
  offset_ = (64 - address % 64) % 64;
}

Buffer::Buffer(const void* from, size_t bytes) : Buffer(bytes) {
  if (bytes != 0) std::memcpy(data(), from, bytes);
}

bool Buffer::intact() const {
  const auto* guard = data() + bytes_;
  return std::all_of(guard, guard + kGuard, [](unsigned char b) { return b == kGuardByte; });
}

bool Buffer::operator==(const Buffer& other) const {
  return bytes_ == other.bytes_ && (bytes_ == 0 || std::memcmp(data(), other.data(), bytes_) == 0);
}

Buffer stored(const void* plain, const TensorType& type) {
  if (type.layout == Layout::kPlain) return Buffer(plain, type.bytes());
  Buffer blocks(type.bytes());
  std::fill_n(blocks.data(), blocks.bytes(), 0);
  const int64_t channels = type.shape[1], pixels = type.shape[2] * type.shape[3];
  const size_t element = dtype_size(type.dtype);
  for (int64_t i = 0; i < type.size(); ++i) {
    const int64_t n = i / pixels / channels, c = i / pixels % channels, p = i % pixels;
    const int64_t at = ((n * ((channels + 15) / 16) + c / 16) * pixels + p) * 16 + c % 16;
    std::memcpy(blocks.data() + static_cast<size_t>(at) * element,
                static_cast<const char*>(plain) + static_cast<size_t>(i) * element, element);
  }
  return blocks;
}

TestNode::TestNode(const RowCase& row) : c(row) {
  uint32_t seed = 1234;
  for (const Operand& o : c.inputs) {
    inputs.push_back(make_tensor(o, seed++));
    in.push_back({o.dtype, o.shape});
  }
  out = infer_types(c.op, in, c.attrs);
  const auto mark = [](std::vector<TensorType>& types, uint32_t blocked, uint32_t bf16) {
    for (size_t i = 0; i < types.size(); ++i) {
      if (blocked >> i & 1) types[i].layout = Layout::kNChw16c;
      if (bf16 >> i & 1) types[i].dtype = DType::kBFloat16;
    }
  };
  mark(in, c.blocked_inputs, c.bf16_inputs);
  mark(out, c.blocked_outputs, c.bf16_outputs);
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].dtype == DType::kBFloat16) inputs[i] = inputs[i].to(DType::kBFloat16);
  }
}

TestNode TestNode::plain() const {
  TestNode node = *this;
  for (auto* list : {&node.in, &node.out}) {
    for (TensorType& t : *list) t = computed(t);
  }
  for (size_t i = 0; i < inputs.size(); ++i) node.inputs[i] = inputs[i].to(node.in[i].dtype);
  return node;
}

std::string TestNode::text() const {
  std::string what = std::string(op_info(c.op).name) + " " + to_string(c.attrs) + ":";
  for (const TensorType& t : in) what += " " + to_string(t);
  return what;
}

bool takes(const KernelRow& row, const NodeView& view) {
  return row.op == view.op && row_support(row, view).ok;
}

std::vector<Buffer> run_on_cpu(const KernelRow& row, const TestNode& node, int shared) {
  Scratch booked;
  const auto kernel = plan_row(row, node.view(), booked);
  Buffer scratch(booked.bytes);
  std::vector<Buffer> ins, outs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ins.push_back(stored(node.inputs[i].raw(), node.in[i]));
  }
  const std::vector<Buffer> before = ins;
  for (const TensorType& t : node.out) outs.emplace_back(t.bytes());
  for (Buffer& b : ins) in.push_back(b.data());
  for (Buffer& b : outs) out.push_back(b.data());
  if (shared >= 0) out[0] = ins[static_cast<size_t>(shared)].data();
  kernel->run({in.data(), out.data(), scratch.data()});
  if (shared >= 0) outs[0] = ins[static_cast<size_t>(shared)];
  for (size_t i = 0; i < ins.size(); ++i) {
    if (static_cast<int>(i) == shared) continue;
    INFO("input " << i);
    CHECK(ins[i].intact());
    CHECK(ins[i] == before[i]);
  }
  for (const Buffer& b : outs) CHECK(b.intact());
  CHECK(scratch.intact());
  return outs;
}

std::vector<Buffer> reference_results(const TestNode& node) {
  const KernelRow* reference = nullptr;
  const TestNode plain = node.plain();
  for (const KernelRow& row : reference_kernels()) {
    if (!reference && takes(row, plain.view())) reference = &row;
  }
  REQUIRE(reference);
  std::vector<Buffer> want = run_on_cpu(*reference, plain);
  for (size_t i = 0; i < want.size(); ++i) {
    TensorType wide = plain.out[i];
    wide.layout = node.out[i].layout;
    want[i] = stored(want[i].data(), wide);
  }
  return want;
}

void compare(const Buffer& got, const Buffer& want, const TensorType& type, Tolerance tolerance) {
  const bool bf16 = type.dtype == DType::kBFloat16;
  if (bf16) {
    TensorType wide = type;
    wide.dtype = DType::kFloat32;
    return compare_values(widened(got), want, wide, tolerance, 1.0 / 256);
  }
  compare_values(got, want, type, tolerance, 0);
}

}  // namespace trainrt
