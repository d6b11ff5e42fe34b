#include "kernels/cpu/fused_instruction.h"

#include <algorithm>

namespace trainrt {
namespace {

void call_unary(const FusedCall& i, const FusedSlots& s, int64_t n) {
  i.unary(i.f(s, 0), i.f_out(s), n, i.lo, i.hi);
}
void call_binary(const FusedCall& i, const FusedSlots& s, int64_t n) {
  i.binary(i.f(s, 0), i.f(s, 1), i.f_out(s), n, i.lo, i.hi);
}
void call_compare(const FusedCall& i, const FusedSlots& s, int64_t n) {
  i.compare(i.f(s, 0), i.f(s, 1), i.b_out(s), n);
}
void call_where(const FusedCall& i, const FusedSlots& s, int64_t n) {
  i.where(i.b(s, 0), i.f(s, 1), i.f(s, 2), i.f_out(s), n);
}

template <typename F>
void call_bool(const FusedCall& i, const FusedSlots& s, int64_t n, F f) {
  const uint8_t *a = i.b(s, 0), *b = i.b(s, 1);
  uint8_t* y = i.b_out(s);
#pragma omp simd
  for (int64_t k = 0; k < n; ++k) y[k] = f(a[k] != 0, b[k] != 0);
}
void call_and(const FusedCall& i, const FusedSlots& s, int64_t n) {
  call_bool(i, s, n, [](bool a, bool b) -> uint8_t { return a & b; });
}
void call_or(const FusedCall& i, const FusedSlots& s, int64_t n) {
  call_bool(i, s, n, [](bool a, bool b) -> uint8_t { return a | b; });
}
void call_xor(const FusedCall& i, const FusedSlots& s, int64_t n) {
  call_bool(i, s, n, [](bool a, bool b) -> uint8_t { return a ^ b; });
}
void call_not(const FusedCall& i, const FusedSlots& s, int64_t n) {
  const uint8_t* a = i.b(s, 0);
  uint8_t* y = i.b_out(s);
#pragma omp simd
  for (int64_t k = 0; k < n; ++k) y[k] = a[k] == 0;
}
void call_is_nan(const FusedCall& i, const FusedSlots& s, int64_t n) {
  const float* x = i.f(s, 0);
  uint8_t* y = i.b_out(s);
#pragma omp simd
  for (int64_t k = 0; k < n; ++k) y[k] = x[k] != x[k];
}
void call_to_float(const FusedCall& i, const FusedSlots& s, int64_t n) {
  const uint8_t* x = i.b(s, 0);
  float* y = i.f_out(s);
#pragma omp simd
  for (int64_t k = 0; k < n; ++k) y[k] = x[k] != 0 ? 1.0f : 0.0f;
}
void call_to_bool(const FusedCall& i, const FusedSlots& s, int64_t n) {
  const float* x = i.f(s, 0);
  uint8_t* y = i.b_out(s);
#pragma omp simd
  for (int64_t k = 0; k < n; ++k) y[k] = x[k] != 0.0f;
}

}  // namespace

std::optional<FusedCall> select_call(const FusedInstruction& from, std::span<const DType> in,
                                     const std::array<bool, 3>& moves) {
  FusedCall i;
  const auto all = [&](DType t) {
    return std::all_of(in.begin(), in.end(), [&](DType d) { return d == t; });
  };
  if (const auto* clip = std::get_if<ClipAttrs>(&from.attrs)) {
    i.lo = static_cast<float>(clip->lo);
    i.hi = static_cast<float>(clip->hi);
  }
  const Operands operands = moves[0] && moves[1] ? Operands::kBoth
                            : moves[0]           ? Operands::kFirst
                                                 : Operands::kSecond;
  const auto plain = [&](FusedLoop call) {
    i.call = call;
    return i;
  };
  switch (from.op) {
    case Op::kWhere:
      if (in[0] != DType::kBool || in[1] != DType::kFloat32) return std::nullopt;
      i.call = call_where;
      i.where = where_loop(moves[1], moves[2]);
      return i;
    case Op::kAnd:
      return plain(call_and);
    case Op::kOr:
      return plain(call_or);
    case Op::kXor:
      return plain(call_xor);
    case Op::kNot:
      return plain(call_not);
    case Op::kCast: {
      const DType to = std::get<CastAttrs>(from.attrs).to;
      if (in[0] == DType::kBool && to == DType::kFloat32) return plain(call_to_float);
      if (in[0] == DType::kFloat32 && to == DType::kBool) return plain(call_to_bool);
      return std::nullopt;
    }
    default:
      break;
  }
  if (!all(DType::kFloat32)) return std::nullopt;
  if (from.op == Op::kIsNaN) return plain(call_is_nan);
  if (in.size() == 1) {
    i.call = call_unary;
    i.unary = unary_loop(from.op);
    return i.unary != nullptr ? std::optional(i) : std::nullopt;
  }
  if (in.size() != 2) return std::nullopt;
  if (const CompareLoop compare = compare_loop(from.op, operands)) {
    i.call = call_compare;
    i.compare = compare;
    return i;
  }
  i.call = call_binary;
  i.binary = binary_loop(from.op, operands);
  return i.binary != nullptr ? std::optional(i) : std::nullopt;
}

}  // namespace trainrt
