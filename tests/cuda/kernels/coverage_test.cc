#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "kernels/kernel.h"

namespace trainrt {
namespace {

/// Ops without a CUDA row, and why.
const std::map<Op, std::string> kWithout = {
    {Op::kInput, "plans hold them"},
    {Op::kConstant, "plans hold them"},
    {Op::kReshape, "a view"},
    {Op::kTransfer, "plans copy"},
    {Op::kNormConv, "made only where a row takes it"},
    {Op::kNormConvGrad, "made only where a row takes it"},
    {Op::kCall, "a function of the program's runs on the CPU"},
    {Op::kHook, "a function of the program's runs on the CPU"},
};

TEST_CASE("every op has a CUDA row or a reason for none") {
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    INFO(op_info(op).name);
    const bool row = std::any_of(cuda_kernels().begin(), cuda_kernels().end(),
                                 [&](const KernelRow& r) { return r.op == op; });
    CHECK(row != kWithout.contains(op));
  }
}

}  // namespace
}  // namespace trainrt
