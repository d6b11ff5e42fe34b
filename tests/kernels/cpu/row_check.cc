#include "tests/kernels/cpu/row_check.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "kernels/cpu/threads.h"

namespace trainrt {

void check_rows(const RowCase& c, Tolerance tolerance) {
  const TestNode node(c);
  INFO(node.text());
  const std::vector<Buffer> want = reference_results(node);
  int taken = 0;
  for (const KernelRow& row : cpu_kernels()) {
    if (!takes(row, node.view())) continue;
    ++taken;
    INFO("row " << row.name);
    const int threads = cpu_threads();
    set_cpu_threads(3);
    const std::vector<Buffer> got = run_on_cpu(row, node);
    for (size_t i = 0; i < want.size(); ++i) {
      INFO("output " << i);
      compare(got[i], want[i], node.out[i], tolerance);
    }
    for (size_t i = 0; row.in_place && i < node.in.size(); ++i) {
      if (node.in[i].bytes() != node.out[0].bytes() ||
          node.in[i].stored_size() != node.out[0].stored_size()) {
        continue;
      }
      INFO("in place of input " << i);
      const std::vector<Buffer> shared = run_on_cpu(row, node, static_cast<int>(i));
      for (size_t k = 0; k < want.size(); ++k) CHECK(shared[k] == got[k]);
    }
    set_cpu_threads(1);
    const std::vector<Buffer> serial = run_on_cpu(row, node);
    set_cpu_threads(threads);
    for (size_t k = 0; k < want.size(); ++k) {
      if (row.name.starts_with("cpu."))
        CHECK(serial[k] == got[k]);
      else
        compare(serial[k], want[k], node.out[k], tolerance);
    }
  }
  CHECK(taken > 0);
}

void check_both_types(RowCase c, Tolerance tolerance) {
  check_rows(c, tolerance);
  c.bf16_inputs |= c.blocked_inputs;
  c.bf16_outputs |= c.blocked_outputs;
  check_rows(c, tolerance);
}

std::vector<Tensor> run_first_row(const RowCase& c) {
  const TestNode node(c);
  for (const KernelRow& row : cpu_kernels()) {
    if (!takes(row, node.view())) continue;
    std::vector<Tensor> result;
    const std::vector<Buffer> outs = run_on_cpu(row, node);
    for (size_t i = 0; i < outs.size(); ++i) {
      result.emplace_back(node.out[i].dtype, node.out[i].shape);
      if (outs[i].bytes() != 0) std::memcpy(result[i].raw(), outs[i].data(), outs[i].bytes());
    }
    return result;
  }
  FAIL("no CPU row takes " << op_info(c.op).name);
  return {};
}

std::vector<std::string> refusals(const RowCase& c) {
  const TestNode node(c);
  std::vector<std::string> reasons;
  for (const KernelRow& row : cpu_kernels()) {
    if (row.op == c.op) reasons.push_back(row.supports ? row.supports(node.view()).reason : "");
  }
  return reasons;
}

}  // namespace trainrt
