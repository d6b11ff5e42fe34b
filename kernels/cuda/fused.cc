// Programs of elementwise ops as generated CUDA C++.
#include "kernels/cuda/device/fused.h"

#include <array>
#include <optional>

#include "kernels/cuda/codegen.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

class ProgramKernel final : public Kernel {
 public:
  ProgramKernel(const NodeView& node, Scratch& scratch) {
    const FusedProgram program = program_of(node);
    Generated generated = generate({program, node.inputs, node.outputs});
    scratch.bytes = generated.scratch_bytes;
    for (GeneratedKernel& k : generated.kernels) {
      gpu::Device* device = scratch.device;
      const gpu::Function* f = device == nullptr ? nullptr : device->compile(k.source, k.name);
      launches_.push_back({f, k.grid, std::move(k.pointers)});
    }
    for (const PartialSum& s : generated.partial_sums) {
      sums_.push_back({function_for(scratch, node.outputs[s.output].dtype), s});
    }
    for (size_t output : generated.zeroed)
      zeroed_.push_back({output, node.outputs[output].bytes()});
  }

  void run(const KernelArgs& args) const override {
    for (const Zeroed& z : zeroed_) {
      if (z.bytes > 0) args.stream->zero(args.out[z.output], z.bytes);
    }
    for (const Launch& launch : launches_) {
      std::array<void*, kMaxPointers> pointers;
      size_t count = 0;
      for (const Pointer& p : launch.pointers) pointers[count++] = address(args, p);
      args.stream->launch(launch.function, launch.grid, kThreads, pointers.data(),
                          count * sizeof(void*));
    }
    for (const Sum& s : sums_) {
      const AddPartsArguments sum{address(args, {Pointer::Kind::kScratch, s.sum.scratch}),
                                  args.out[s.sum.output], s.sum.parts, s.sum.size};
      args.stream->launch(s.function, blocks_for(s.sum.size * 32), kThreads, sum);
    }
  }

 private:
  struct Launch {
    const gpu::Function* function;
    gpu::Size3 grid;
    std::vector<Pointer> pointers;
  };
  struct Sum {
    const gpu::Function* function;
    PartialSum sum;
  };
  struct Zeroed {
    size_t output, bytes;
  };

  static const gpu::Function* function_for(const Scratch& scratch, DType dtype) {
    if (is_float(dtype)) return function(scratch, "add_parts", dtype);
    return function(scratch, "add_parts_" + std::to_string(dtype_size(dtype)));
  }

  static void* address(const KernelArgs& args, const Pointer& p) {
    if (p.kind == Pointer::Kind::kInput) return const_cast<void*>(args.in[p.at]);
    if (p.kind == Pointer::Kind::kOutput) return args.out[p.at];
    return static_cast<std::byte*>(args.scratch) + p.at;
  }

  std::vector<Launch> launches_;
  std::vector<Sum> sums_;
  std::vector<Zeroed> zeroed_;
};

Support takes_fused(const NodeView& node) {
  const FusedProgram program = program_of(node);
  return takes_program({program, node.inputs, node.outputs});
}

Support takes_fused_in_place(const NodeView& node) {
  const FusedProgram program = program_of(node);
  return takes_program_in_place({program, node.inputs, node.outputs});
}

constexpr KernelRow kRows[] = {
    {Op::kFused, "cuda.fused", takes_fused_in_place, plan_program, true, false, true},
    {Op::kFused, "cuda.fused", takes_fused, plan_program, false, false, true},
};

}  // namespace

FusedProgram program_of(const NodeView& node) {
  if (node.op == Op::kFused) return parse_fused(node.attr<FusedAttrs>().program);
  FusedInstruction instruction{node.op, node.attrs, {}};
  if (node.op == Op::kReorder) instruction = {Op::kIdentity, NoAttrs{}, {}};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    instruction.operands.push_back({FusedOperand::Kind::kInput, static_cast<int32_t>(i), 0});
  }
  return {{instruction}, {0}};
}

std::unique_ptr<Kernel> plan_program(const NodeView& node, Scratch& scratch) {
  return std::make_unique<ProgramKernel>(node, scratch);
}

std::span<const KernelRow> fused_rows() { return kRows; }

}  // namespace trainrt::cuda
