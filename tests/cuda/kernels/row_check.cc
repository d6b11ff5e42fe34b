#include "tests/cuda/kernels/row_check.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>

#include "graph/infer.h"
#include "kernels/blocked_view.h"
#include "tests/cuda/test_device.h"

namespace trainrt {
namespace {

using testing::test_device;

/// Memory of the device that ends where its allocation ends.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) : bytes_(bytes), data_(test_device().allocate(bytes)) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept : bytes_(other.bytes_), data_(other.data_) {
    other.data_ = nullptr;
  }
  ~DeviceBuffer() { test_device().free(data_); }
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};

/// Outputs of one run, of which the first ones lie on the inputs `places` (-1: on none). Empty when
/// the device has no way to run the row.
std::vector<Buffer> run_on_device(const KernelRow& row, const TestNode& node,
                                  const std::vector<int>& places = {}, int32_t* report = nullptr) {
  gpu::Device& device = test_device();
  Scratch booked;
  booked.device = &device;
  const auto kernel = plan_row(row, node.view(), booked);
  if (!kernel) return {};
  device.finish_compiling();
  const auto stream = device.make_stream();
  std::vector<Buffer> host;
  std::vector<DeviceBuffer> ins, outs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    host.push_back(stored(node.inputs[i].raw(), node.in[i]));
    ins.emplace_back(host.back().bytes());
    stream->copy_to_device(ins.back().data(), host.back().data(), host.back().bytes());
    stream->synchronize();
  }
  for (const TensorType& t : node.out) outs.emplace_back(t.bytes());
  for (const DeviceBuffer& b : ins) in.push_back(b.data());
  for (const DeviceBuffer& b : outs) out.push_back(b.data());
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] >= 0) out[i] = ins[static_cast<size_t>(places[i])].data();
  }
  const DeviceBuffer scratch(booked.bytes), status(sizeof(int32_t));
  stream->zero(status.data(), sizeof(int32_t));
  KernelArgs args{in.data(), out.data(), scratch.data()};
  args.stream = stream.get();
  args.status = static_cast<int32_t*>(status.data());
  args.step = 6;
  kernel->run(args);
  std::vector<Buffer> results;
  for (size_t i = 0; i < outs.size(); ++i) {
    results.emplace_back(outs[i].bytes());
    stream->copy_to_host(results[i].data(), out[i], outs[i].bytes());
    stream->synchronize();
  }
  for (size_t i = 0; i < ins.size(); ++i) {
    if (std::count(places.begin(), places.end(), static_cast<int>(i)) > 0) continue;
    Buffer after(ins[i].bytes());
    stream->copy_to_host(after.data(), ins[i].data(), ins[i].bytes());
    stream->synchronize();
    INFO("input " << i);
    CHECK(after == host[i]);
  }
  int32_t reported = 0;
  stream->copy_to_host(&reported, status.data(), sizeof(reported));
  stream->synchronize();
  if (report != nullptr) {
    *report = reported;
  } else {
    CHECK(reported == 0);
  }
  return results;
}

/// The operands that a state node's outputs lie on.
std::vector<int> state_places(const TestNode& node) {
  if (node.c.op == Op::kAssign || node.c.op == Op::kAssignAdd) return {0};
  if (node.c.op != Op::kOptimizerUpdate) return {};
  std::vector<int> places = {0};
  for (size_t i = 4; i < node.in.size(); ++i) places.push_back(static_cast<int>(i));
  return places;
}

/// float64 results are compared here: by 1e-11 of the largest.
void compare_double(const Buffer& got, const Buffer& want) {
  const auto* a = reinterpret_cast<const double*>(got.data());
  const auto* b = reinterpret_cast<const double*>(want.data());
  const size_t n = want.bytes() / sizeof(double);
  double largest = 0;
  for (size_t i = 0; i < n; ++i) {
    if (std::isfinite(b[i])) largest = std::max(largest, std::fabs(b[i]));
  }
  for (size_t i = 0; i < n; ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    INFO("element " << i << " of " << n << ": " << a[i] << ", reference " << b[i]);
    if (!(std::fabs(a[i] - b[i]) <= 1e-11 * largest)) FAIL("differs from the reference");
  }
}

/// Number of rows that ran the node.
int check(const TestNode& node, Tolerance tolerance) {
  INFO(node.text());
  int taken = 0;
  std::vector<Buffer> want;
  for (const KernelRow& row : cuda_kernels()) {
    if (!takes(row, node.view())) continue;
    INFO("row " << row.name);
    if (want.empty()) want = reference_results(node);
    const std::vector<Buffer> got = run_on_device(row, node);
    if (got.empty()) continue;
    ++taken;
    for (size_t i = 0; i < want.size(); ++i) {
      INFO("output " << i);
      if (node.out[i].dtype == DType::kFloat64) {
        compare_double(got[i], want[i]);
      } else {
        compare(got[i], want[i], node.out[i], tolerance);
      }
    }
    CHECK(run_on_device(row, node) == got);
    for (size_t i = 0; row.in_place && i < node.in.size(); ++i) {
      if (node.in[i].bytes() != node.out[0].bytes() ||
          node.in[i].stored_size() != node.out[0].stored_size()) {
        continue;
      }
      INFO("in place of input " << i);
      CHECK(run_on_device(row, node, {static_cast<int>(i)}) == got);
    }
    const std::vector<int> places = state_places(node);
    if (!places.empty()) CHECK(run_on_device(row, node, places) == got);
  }
  return taken;
}

}  // namespace

std::vector<Buffer> run_cuda_row(const RowCase& c, int32_t* reported) {
  const TestNode node(c);
  for (const KernelRow& row : cuda_kernels()) {
    if (!takes(row, node.view())) continue;
    std::vector<Buffer> results = run_on_device(row, node, {}, reported);
    if (!results.empty()) return results;
  }
  FAIL("no CUDA row takes " << node.text());
  return {};
}

void check_cuda_mixtures(RowCase c, uint32_t inputs, uint32_t outputs, Tolerance tolerance) {
  for (c.bf16_inputs = 0; c.bf16_inputs <= inputs; ++c.bf16_inputs) {
    for (c.bf16_outputs = 0; c.bf16_outputs <= outputs; ++c.bf16_outputs) {
      if ((c.bf16_inputs & ~inputs) == 0 && (c.bf16_outputs & ~outputs) == 0) {
        check_cuda_rows(c, tolerance);
      }
    }
  }
}

void check_cuda_rows(const RowCase& c, Tolerance tolerance) {
  const TestNode node(c);
  const int taken = check(node, tolerance);
  INFO(node.text());
  CHECK(taken > 0);
  if (c.bf16_inputs != 0 || c.bf16_outputs != 0) return;
  TestNode doubles = node;
  bool any = false;
  for (auto* list : {&doubles.in, &doubles.out}) {
    for (TensorType& t : *list) {
      if (t.dtype == DType::kFloat32) {
        t.dtype = DType::kFloat64;
        any = true;
      }
    }
  }
  // These name the type of their result themselves.
  if (std::holds_alternative<CastAttrs>(c.attrs) || std::holds_alternative<FillAttrs>(c.attrs) ||
      std::holds_alternative<RandomAttrs>(c.attrs)) {
    return;
  }
  if (!any) return;
  if (c.op == Op::kFused) doubles.out = infer_types(c.op, doubles.in, c.attrs);
  for (size_t i = 0; i < doubles.inputs.size(); ++i) {
    doubles.inputs[i] = doubles.inputs[i].to(doubles.in[i].dtype);
  }
  check(doubles, tolerance);
}

}  // namespace trainrt
