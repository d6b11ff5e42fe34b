#include "tests/kernels/cases/elementwise.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "graph/fused.h"
#include "graph/infer.h"
#include "tests/cuda/kernels/row_check.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt8,  DType::kInt16,
                            DType::kInt32,   DType::kInt64,   DType::kUInt8, DType::kUInt16,
                            DType::kUInt32,  DType::kUInt64,  DType::kBool};

/// An op with attributes worth a test.
struct Variant {
  Op op;
  Attrs attrs;
};

std::vector<Variant> variants() {
  constexpr double inf = std::numeric_limits<double>::infinity();
  std::vector<Variant> all;
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (!is_elementwise(op) || op == Op::kFused || op == Op::kBitCast) continue;
    if (op == Op::kGelu || op == Op::kGeluGrad) {
      all.push_back({op, GeluAttrs{false}});
      all.push_back({op, GeluAttrs{true}});
    } else if (op == Op::kClip || op == Op::kClipGrad) {
      all.push_back({op, ClipAttrs{-2.5, 3.5}});
      all.push_back({op, ClipAttrs{-inf, 2}});
      all.push_back({op, ClipAttrs{0, 1e30}});
    } else if (op == Op::kRoundTo) {
      for (const Rounding r :
           {Rounding::kNearestEven, Rounding::kNearestUp, Rounding::kUp, Rounding::kDown}) {
        all.push_back({op, RoundToAttrs{3, -6, 448, Overflow::kSaturate, r}});
      }
      all.push_back({op, RoundToAttrs{2, -14, 57344, Overflow::kInfinity, Rounding::kNearestEven}});
      all.push_back({op, RoundToAttrs{7, 7, 127, Overflow::kNan, Rounding::kNearestEven}});
    } else if (op == Op::kCast) {
      for (DType to : kTypes) all.push_back({op, CastAttrs{to}});
    } else {
      all.push_back({op, NoAttrs{}});
    }
  }
  return all;
}

/// Types of the variant's operands, all of `dtype` but for a selector; nothing when the reference
/// takes no such node.
std::optional<std::vector<DType>> operands_of(const Variant& v, DType dtype) {
  std::vector<DType> types(static_cast<size_t>(op_info(v.op).max_inputs), dtype);
  if (v.op == Op::kWhere) types[0] = DType::kBool;
  std::vector<TensorType> in, out;
  for (DType t : types) in.push_back({t, {2}});
  try {
    out = infer_types(v.op, in, v.attrs);
  } catch (const Error&) {
    return std::nullopt;
  }
  for (const KernelRow& row : reference_kernels()) {
    if (takes(row, {v.op, v.attrs, in, out})) return types;
  }
  return std::nullopt;
}

/// Whether an op's result has the same bits in every correct implementation.
bool is_exact(Op op) {
  switch (op) {
    case Op::kExp:
    case Op::kLog:
    case Op::kSin:
    case Op::kCos:
    case Op::kTan:
    case Op::kAsin:
    case Op::kAcos:
    case Op::kAtan:
    case Op::kSinh:
    case Op::kCosh:
    case Op::kAsinh:
    case Op::kAcosh:
    case Op::kAtanh:
    case Op::kTanh:
    case Op::kSigmoid:
    case Op::kSoftplus:
    case Op::kErf:
    case Op::kGelu:
    case Op::kGeluGrad:
    case Op::kSilu:
    case Op::kSiluGrad:
    case Op::kPow:
      return false;
    default:
      return true;
  }
}

/// One program of all variants that take the type (a generated source is compiled in half a
/// second); $0 is a selector, $3 flows into gradients of functions.
std::string program_of(DType dtype, bool exact) {
  FusedProgram program;
  for (const Variant& v : variants()) {
    const auto types = operands_of(v, dtype);
    if (!types || (is_exact(v.op) || !is_float(dtype)) != exact) continue;
    FusedInstruction i{v.op, v.attrs, {}};
    int32_t next = v.op == Op::kWhere ? 0 : 1;
    for (size_t k = 0; k < types->size(); ++k) {
      i.operands.push_back({FusedOperand::Kind::kInput, next++, 0});
    }
    if (!is_exact(v.op) && types->size() == 2 && v.op != Op::kPow) i.operands[0].index = 3;
    program.results.push_back(static_cast<int32_t>(program.instructions.size()));
    program.instructions.push_back(std::move(i));
  }
  return print(program);
}

template <typename T>
std::vector<T> interesting() {
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::is_floating_point_v<T>) {
    std::vector<T> values;
    const Tensor special = special_values();
    for (float v : special.data<float>()) values.push_back(v);
    for (double v : {3e9, -3e9, 5e9, 1e19, -1e19, 127.5, 255.9, 300.0, 449.0, 1.0625, 0.013, 3.0}) {
      values.push_back(static_cast<T>(v));
    }
    return values;
  } else {
    using Limits = std::numeric_limits<T>;
    std::vector<T> values = {Limits::min(), Limits::max(), 0, 1, 2, 3, 5, 7, 31, 100};
    if (std::is_signed_v<T>) {
      for (int v : {-1, -2, -3, -7}) values.push_back(static_cast<T>(v));
    }
    return values;
  }
}

/// All pairs of interesting values as two columns.
std::pair<Tensor, Tensor> pairs(DType dtype) {
  Tensor a, b;
  with_type(dtype, [&]<typename T>(T) {
    const std::vector<T> values = interesting<T>();
    const auto n = static_cast<int64_t>(values.size());
    a = Tensor(dtype, {n * n});
    b = Tensor(dtype, {n * n});
    for (int64_t i = 0; i < n * n; ++i) {
      a.data<T>()[static_cast<size_t>(i)] = values[static_cast<size_t>(i / n)];
      b.data<T>()[static_cast<size_t>(i)] = values[static_cast<size_t>(i % n)];
    }
  });
  return {a, b};
}

Operand selector(const Shape& shape) { return {shape, DType::kBool, 0, 1}; }

TEST_CASE("every elementwise op on every type that the reference takes has a CUDA row") {
  for (const Variant& v : variants()) {
    for (DType dtype : kTypes) {
      const auto types = operands_of(v, dtype);
      if (!types) continue;
      std::vector<TensorType> in;
      for (DType t : *types) in.push_back({t, {2}});
      const std::vector<TensorType> out = infer_types(v.op, in, v.attrs);
      bool taken = false;
      for (const KernelRow& row : cuda_kernels()) {
        taken = taken || takes(row, {v.op, v.attrs, in, out});
      }
      INFO(op_info(v.op).name << " " << dtype_name(dtype));
      CHECK(taken);
    }
  }
}

TEST_CASE("elementwise ops on all pairs of special values on CUDA") {
  for (DType dtype : kTypes) {
    const auto [a, b] = pairs(dtype);
    INFO(dtype_name(dtype));
    std::vector<Operand> inputs = {selector(a.shape()), Operand(a), Operand(b)};
    check_cuda_rows({Op::kFused, inputs, FusedAttrs{program_of(dtype, true)}}, kExact);
    if (!is_float(dtype)) continue;
    inputs.push_back(Operand(a.shape(), dtype, -2, 2));
    check_cuda_rows({Op::kFused, inputs, FusedAttrs{program_of(dtype, false)}}, {1e-5, true});
  }
}

TEST_CASE("elementwise functions on random values on CUDA") {
  const std::string program = program_of(DType::kFloat32, false);
  for (double range : {0.01, 1.0, 10.0}) {
    const Operand x({301}, -range, range);
    check_cuda_rows({Op::kFused, {selector({301}), x, x, Shape{301}}, FusedAttrs{program}}, kClose);
  }
}

TEST_CASE("elementwise nodes with every form of broadcasting on CUDA") {
  for (const auto& [a, b] : broadcast_pairs()) check_cuda_rows({Op::kSub, {a, b}}, kExact);
  const Shape shape{5, 7};
  check_cuda_rows({Op::kWhere, {selector({5, 1}), shape, Shape{7}}}, kExact);
  check_cuda_rows({Op::kWhere, {selector({}), Shape{2, 1}, Shape{3}}}, kExact);
  check_cuda_rows({Op::kLess, {shape, Shape{7}}}, kExact);
  check_cuda_rows({Op::kRelu, {Shape{4099}}}, kExact);
  check_cuda_rows({Op::kClip, {shape}, ClipAttrs{-1, 0.5}}, kExact);
}

TEST_CASE("elementwise nodes on integers, packed, on CUDA") {
  for (DType dtype : {DType::kInt8, DType::kInt16, DType::kInt64, DType::kBool}) {
    const double hi = dtype == DType::kBool ? 1 : 9;
    const Op op = dtype == DType::kBool ? Op::kXor : Op::kMul;
    const Operand x({2055}, dtype, 0, hi), y({2, 1032}, dtype, 0, hi), row({1032}, dtype, 0, hi);
    check_cuda_rows({op, {x, x}}, kExact);
    check_cuda_rows({op, {y, row}}, kExact);
  }
}

TEST_CASE("BitCast on CUDA") {
  check_cuda_rows({Op::kBitCast, {Operand({37}, DType::kInt32, -9, 9)}, CastAttrs{DType::kUInt32}},
                  kExact);
  check_cuda_rows({Op::kBitCast, {Operand({37}, DType::kInt64, -9, 9)}, CastAttrs{DType::kUInt64}},
                  kExact);
}

TEST_CASE("elementwise nodes on bfloat16 on CUDA") {
  for (const Shape& shape : {Shape{37}, Shape{5000}, Shape{0}, Shape{}}) {
    check_cuda_rows({Op::kAdd, {shape, shape}, NoAttrs{}, 0, 0, 1, 0}, kClose);
    check_cuda_rows({Op::kMul, {shape, shape}, NoAttrs{}, 0, 0, 3, 1}, kClose);
    check_cuda_rows({Op::kRelu, {shape}, NoAttrs{}, 0, 0, 0, 1}, kClose);
    check_cuda_rows({Op::kReorder, {shape}, LayoutAttrs{}, 0, 0, 1, 0}, kExact);
    check_cuda_rows({Op::kReorder, {shape}, LayoutAttrs{}, 0, 0, 0, 1}, kClose);
  }
  check_cuda_rows({Op::kAdd, {Shape{8, 256}, Shape{256}}, NoAttrs{}, 0, 0, 1, 1}, kClose);
}

}  // namespace
}  // namespace trainrt
