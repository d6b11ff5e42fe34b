#include "graph/fused.h"

#include "kernels/reference/common.h"

namespace trainrt::reference {
namespace {

/// Where an operand lies.
struct Place {
  enum class Kind : uint8_t { kInput, kOutput, kScratch, kNumber };
  Kind kind = Kind::kInput;
  size_t at = 0;  // number of the operand, or offset
};

struct Step {
  std::unique_ptr<Kernel> kernel;
  std::vector<Place> in;
  Place out;
};

/// The instructions one after the other, each by its own kernel over the whole iteration space.
class FusedKernel final : public Kernel {
 public:
  FusedKernel(const NodeView& node, Scratch& scratch) {
    const FusedProgram program = parse_fused(node.attr<FusedAttrs>().program);
    const FusedTypes types = fused_types(program, node.inputs);
    size_t bytes = 0, work = 0;
    const auto book = [&](const TensorType& t) {
      const size_t offset = bytes;
      bytes += (t.bytes() + 63) / 64 * 64;
      return Place{Place::Kind::kScratch, offset};
    };
    std::vector<Place> inputs, results;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const TensorType& type = node.inputs[i];
      const Place given{Place::Kind::kInput, i};
      const TensorType whole{type.dtype, types.shape};
      inputs.push_back(type.shape == types.shape ? given : book(whole));
      if (type.shape == types.shape) continue;
      add_step(Op::kExpand, ShapeAttrs{types.shape}, {type}, whole, {given}, inputs.back(), work);
    }
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const FusedInstruction& instruction = program.instructions[i];
      std::vector<Place> in;
      std::vector<TensorType> in_types;
      for (const FusedOperand& o : instruction.operands) {
        const auto index = static_cast<size_t>(o.index);
        if (o.kind == FusedOperand::Kind::kNumber) {
          Tensor number(types.number, {});
          number.fill(o.number);
          in.push_back({Place::Kind::kNumber, numbers_.size()});
          numbers_.push_back(number);
          in_types.push_back({types.number, {}});
        } else if (o.kind == FusedOperand::Kind::kInput) {
          in.push_back(inputs[index]);
          in_types.push_back({node.inputs[index].dtype, types.shape});
        } else {
          in.push_back(results[index]);
          in_types.push_back(types.instructions[index]);
        }
      }
      const auto result = std::find(program.results.begin(), program.results.end(), i);
      const auto number = static_cast<size_t>(result - program.results.begin());
      results.push_back(result != program.results.end() ? Place{Place::Kind::kOutput, number}
                                                        : book(types.instructions[i]));
      add_step(instruction.op, instruction.attrs, in_types, types.instructions[i], in,
               results.back(), work);
    }
    work_ = bytes;
    scratch.bytes = bytes + work;
  }

  void run(const KernelArgs& args) const override {
    for (const Step& step : steps_) {
      std::array<const void*, 3> in{};
      for (size_t i = 0; i < step.in.size(); ++i) in[i] = address(args, step.in[i]);
      void* out = address(args, step.out);
      step.kernel->run({in.data(), &out, static_cast<std::byte*>(args.scratch) + work_});
    }
  }

 private:
  void* address(const KernelArgs& args, Place p) const {
    switch (p.kind) {
      case Place::Kind::kInput:
        return const_cast<void*>(args.in[p.at]);
      case Place::Kind::kOutput:
        return args.out[p.at];
      case Place::Kind::kNumber:
        return const_cast<void*>(numbers_[p.at].raw());
      case Place::Kind::kScratch:
        break;
    }
    return static_cast<std::byte*>(args.scratch) + p.at;
  }

  void add_step(Op op, const Attrs& attrs, const std::vector<TensorType>& in_types,
                const TensorType& out_type, std::vector<Place> in, Place out, size_t& work) {
    const NodeView view{op, attrs, in_types, {&out_type, 1}};
    for (const KernelRow& row : reference_kernels()) {
      if (row.op != op || (row.supports != nullptr && !row.supports(view).ok)) continue;
      Scratch scratch;
      steps_.push_back({row.plan(view, scratch), std::move(in), out});
      work = std::max(work, scratch.bytes);
      return;
    }
    throw Error(ErrorCode::kInternal, "no kernel takes " + std::string(op_info(op).name));
  }

  std::vector<Step> steps_;
  std::vector<Tensor> numbers_;
  size_t work_ = 0;
};

std::unique_ptr<Kernel> plan_fused(const NodeView& node, Scratch& scratch) {
  return std::make_unique<FusedKernel>(node, scratch);
}

constexpr KernelRow kRows[] = {
    {Op::kFused, "reference", nullptr, plan_fused},
};

}  // namespace

std::span<const KernelRow> reference_fused_kernels() { return kRows; }

}  // namespace trainrt::reference
