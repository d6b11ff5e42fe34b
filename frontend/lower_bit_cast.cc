// BitCast. A floating value has the working type whatever the file says, so its stored type is told
// by the width of the other side.
#include <numeric>

#include "frontend/lower_util.h"
#include "frontend/onnx_dtype.h"

namespace trainrt::lowering {
namespace {

Var bits_as(Var x, DType to) {
  return x.dtype() == to ? x : x.builder().add(Op::kBitCast, {x}, CastAttrs{to});
}

// All 2^16 values, looked up: nothing computes with half precision.
Var half_from_bits(LowerContext& c, Var x, DType to) {
  Tensor bits(DType::kUInt16, {1 << 16});
  std::iota(bits.data<uint16_t>().begin(), bits.data<uint16_t>().end(), uint16_t{0});
  const Tensor values = Tensor::view(bits.raw(), to, bits.shape()).to(c.working);
  return gather(c.b.constant(values), cast(cast(x, DType::kUInt16), DType::kInt64), 0);
}

Var float_from_bits(LowerContext& c, Var x, DType to) {
  return dtype_size(to) == 2 ? half_from_bits(c, x, to) : cast(bits_as(x, to), c.working);
}

Var bits_of_float(LowerContext& c, Var x, DType to) {
  switch (dtype_size(to)) {
    case 4:
      return bits_as(cast(x, DType::kFloat32), to);
    case 8:
      if (c.working == DType::kFloat64) return bits_as(x, to);
      c.refuse("no_lowering",
               "the bits of a double, which is computed in float32; compute in float64 instead");
    case 2:
      c.refuse("no_lowering", "the bits of float16 or bfloat16, which are not told apart here");
    default:
      c.invalid("no float has the size of " + std::string(dtype_name(to)));
  }
}

void lower_bit_cast(LowerContext& c) {
  const Var x = c.need(0);
  const int64_t number = c.attr_int("to");
  DType to;
  if (!dtype_from_onnx(number, &to)) {
    c.refuse("no_lowering", "the type " + onnx_type_name(number));
  }
  if (is_float(x.dtype())) {
    if (is_float(to) && dtype_size(to) == 2) {
      c.refuse("no_lowering", "from float16 to bfloat16 or back, which are not told apart here");
    }
    c.set(is_float(to) ? x : bits_of_float(c, x, to));
    return;
  }
  if (dtype_size(x.dtype()) != dtype_size(to)) {
    c.invalid("the bits of " + std::string(dtype_name(x.dtype())) + " are no " +
              std::string(dtype_name(to)));
  }
  // Integers of one size wrap around into each other, and a bool is 0 or 1.
  c.set(is_float(to) ? float_from_bits(c, x, to) : cast(x, to));
}

constexpr LoweringRow kRows[] = {
    {"", "BitCast", 26, lower_bit_cast, GradInputs::kNone,
     "bits of float16, bfloat16, narrow types; of doubles in float32"}};

}  // namespace

std::span<const LoweringRow> bit_cast_lowerings() { return kRows; }

}  // namespace trainrt::lowering
