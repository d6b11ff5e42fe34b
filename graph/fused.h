// The program of a Fused node: elementwise ops over one iteration space, and sums of their results.
#ifndef TRAINRT_GRAPH_FUSED_H_
#define TRAINRT_GRAPH_FUSED_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attrs.h"
#include "graph/types.h"

namespace trainrt {

struct FusedOperand {
  enum class Kind : uint8_t { kInput, kResult, kNumber };
  Kind kind = Kind::kInput;
  int32_t index = 0;  // of the node's input, or of an earlier instruction
  double number = 0;  // a scalar of the program's float type

  bool operator==(const FusedOperand&) const = default;
};

struct FusedInstruction {
  Op op = Op::kIdentity;
  Attrs attrs;
  std::vector<FusedOperand> operands;
};

/// The iteration space is what the node's inputs broadcast to; every instruction but ReduceSum runs
/// over all of it. Sums are results only.
struct FusedProgram {
  std::vector<FusedInstruction> instructions;
  std::vector<int32_t> results;  // distinct instructions, in the order of the node's outputs
};

/// `Mul($0, 0.5); Clip(%0) lo=-1 hi=1; ReduceSum(%1) axes=[0]; return %1, %2`: `$i` is an input,
/// `%i` the result of instruction i. parse(print(p)) gives an equal program.
std::string print(const FusedProgram& program);
/// Throws Error(kUsage) with what was expected.
FusedProgram parse_fused(std::string_view text);

struct FusedTypes {
  Shape shape;  // of the iteration space
  DType number = DType::kFloat32;
  std::vector<TensorType> instructions;
};

/// Throws Error(kInvalidModel) for programs that do not fit the inputs.
FusedTypes fused_types(const FusedProgram& program, std::span<const TensorType> inputs);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_FUSED_H_
