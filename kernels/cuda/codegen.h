// CUDA C++ for programs of elementwise ops and sums (graph/fused.h). The same program over operands
// of the same types gives the same text.
#ifndef TRAINRT_KERNELS_CUDA_CODEGEN_H_
#define TRAINRT_KERNELS_CUDA_CODEGEN_H_

#include <string>
#include <vector>

#include "graph/fused.h"
#include "kernels/kernel.h"

namespace trainrt::cuda {

/// A program with the types of the node that it stands for.
struct ProgramView {
  const FusedProgram& program;
  std::span<const TensorType> inputs, outputs;
};

/// What a generated kernel is handed.
struct Pointer {
  enum class Kind : uint8_t { kInput, kOutput, kScratch };
  Kind kind = Kind::kInput;
  size_t at = 0;  // number of the operand, or offset in bytes
};

/// Its only parameter is a struct of these pointers, in this order.
struct GeneratedKernel {
  std::string name;
  std::string source;  // to stand behind device/device.h
  gpu::Size3 grid;
  std::vector<Pointer> pointers;
};

/// Sums of parts that are to be added: [parts, size] of the accumulators' type.
struct PartialSum {
  size_t output = 0, scratch = 0;
  int64_t parts = 1, size = 1;
};

struct Generated {
  std::vector<GeneratedKernel> kernels;
  std::vector<PartialSum> partial_sums;  // after the kernels
  std::vector<size_t> zeroed;            // outputs that are sums of nothing
  size_t scratch_bytes = 0;
};

inline constexpr size_t kMaxPointers = 480;

Support takes_program(const ProgramView& view);
/// Whether moreover the first output may lie on any input of as many bytes.
Support takes_program_in_place(const ProgramView& view);
/// Of a program that is taken. What stores results of full size runs last, so that only it writes
/// where inputs may lie.
Generated generate(const ProgramView& view);

/// The node as a program: of Fused its own, of an elementwise op (or a Reorder between float32 and
/// bfloat16) one of a single instruction.
FusedProgram program_of(const NodeView& node);
/// A kernel that runs what generate() made of the node.
std::unique_ptr<Kernel> plan_program(const NodeView& node, Scratch& scratch);

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_CODEGEN_H_
