#include "kernels/cuda/codegen.h"

#include <algorithm>
#include <optional>

#include "kernels/cuda/codegen_ops.h"
#include "kernels/cuda/codegen_space.h"
#include "kernels/cuda/rows.h"

namespace trainrt::cuda {
namespace {

using Kind = FusedOperand::Kind;

constexpr size_t kNameLength = 60;
constexpr int64_t kPackBytes = 16;
constexpr int64_t kMaxPack = 8;
constexpr int64_t kPackedElements = 1024;  // smaller spaces are walked one by one
constexpr int64_t kBlocks = 512;           // sums of few results are cut into parts up to here
constexpr int64_t kPartSteps = 4;          // of a thread, at least

size_t index_of(int32_t i) { return static_cast<size_t>(i); }

int64_t power_of_two_from(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The axes that a sum takes away; those of size 1 make no difference.
std::vector<bool> reduced_axes(const FusedInstruction& sum, const Shape& shape) {
  std::vector<bool> reduced(shape.size(), false);
  for (int64_t a : std::get<ReduceAttrs>(sum.attrs).axes) {
    reduced[index_of(static_cast<int32_t>(a))] = shape[static_cast<size_t>(a)] != 1;
  }
  return reduced;
}

std::string_view accumulator(DType dtype) {
  if (!is_float(dtype)) return "u64";
  return dtype == DType::kFloat64 ? "double" : "float";
}
size_t accumulator_bytes(DType dtype) { return accumulator(dtype) == "float" ? 4 : 8; }

/// One kernel: sums over the same axes, and the storing of the other results if asked for.
class KernelWriter {
 public:
  KernelWriter(const ProgramView& view, const FusedTypes& types, std::vector<size_t> sums,
               const std::vector<bool>& reduced, bool stores, Generated& to)
      : view_(view), types_(types), sums_(std::move(sums)), to_(to) {
    find_outputs(stores);
    find_live();
    std::vector<TensorType> operands;
    for (size_t i : inputs_) operands.push_back(view.inputs[i]);
    space_.emplace(types.shape, operands, reduced);
    const int64_t total = element_count(types.shape);
    wide_ = total >= int64_t{1} << 31;
    index_ = wide_ ? "u64" : "u32";
  }

  void write() {
    GeneratedKernel kernel;
    kernel.name = name();
    if (sums_.empty())
      write_map(kernel);
    else
      write_sums(kernel);
    std::string text = "namespace trainrt::cuda {\n\nstruct Arguments {\n";
    for (size_t i : inputs_) {
      text += "  const " + std::string(stored_type(view_.inputs[i].dtype)) + "* x" +
              std::to_string(i) + ";\n";
      kernel.pointers.push_back({Pointer::Kind::kInput, i});
    }
    for (const auto& [instruction, output] : stored_) {
      text += "  " + std::string(stored_type(view_.outputs[output].dtype)) + "* y" +
              std::to_string(output) + ";\n";
      kernel.pointers.push_back({Pointer::Kind::kOutput, output});
    }
    text += sum_members_;
    kernel.pointers.insert(kernel.pointers.end(), sum_pointers_.begin(), sum_pointers_.end());
    text += "};\n\nTRAINRT_KERNEL(" + kernel.name + ", Arguments) {\n" + code_ +
            "}\n\n}  // namespace trainrt::cuda\n";
    kernel.source = std::move(text);
    to_.kernels.push_back(std::move(kernel));
  }

 private:
  struct Stored {
    size_t instruction, output;
  };

  const FusedInstruction& instruction(size_t i) const { return view_.program.instructions[i]; }

  void find_outputs(bool stores) {
    for (size_t k = 0; k < view_.program.results.size(); ++k) {
      const size_t i = index_of(view_.program.results[k]);
      if (instruction(i).op != Op::kReduceSum && stores) stored_.push_back({i, k});
    }
  }

  void find_live() {
    const size_t count = view_.program.instructions.size();
    live_.assign(count, false);
    std::vector<bool> read(view_.inputs.size(), false);
    const auto use = [&](const FusedInstruction& i) {
      for (const FusedOperand& o : i.operands) {
        if (o.kind == Kind::kResult) live_[index_of(o.index)] = true;
        if (o.kind == Kind::kInput) read[index_of(o.index)] = true;
      }
    };
    for (const Stored& s : stored_) live_[s.instruction] = true;
    for (size_t s : sums_) use(instruction(s));
    for (size_t i = count; i-- > 0;) {
      if (live_[i]) use(instruction(i));
    }
    for (size_t i = 0; i < read.size(); ++i) {
      if (read[i]) inputs_.push_back(i);
    }
  }

  std::string name() const {
    const bool single = view_.program.instructions.size() == 1;
    std::string text = single && sums_.empty() ? "elementwise" : "fused";
    const auto append = [&](Op op) {
      const std::string word = "_" + snake_case(op);
      if (text.size() + word.size() <= kNameLength) text += word;
    };
    for (size_t i = 0; i < live_.size(); ++i) {
      if (live_[i]) append(instruction(i).op);
    }
    if (!sums_.empty()) text += "_sum";
    return text;
  }

  /// Elements that a thread takes at once.
  int64_t pack_width(bool any_remainder) const {
    if (element_count(types_.shape) < kPackedElements) return 1;
    int64_t largest = 1, packs = 0;
    const auto count = [&](DType dtype) {
      largest = std::max(largest, static_cast<int64_t>(dtype_size(dtype)));
      ++packs;
    };
    for (size_t k = 0; k < inputs_.size(); ++k) {
      if (moves(k)) count(view_.inputs[inputs_[k]].dtype);
    }
    for (const Stored& s : stored_) count(view_.outputs[s.output].dtype);
    if (packs == 0) return 1;
    int64_t width = std::min(kPackBytes / largest, kMaxPack);
    while (width > 1 && width * packs > 64) width /= 2;  // registers
    if (any_remainder && space_->dims.size() == 1) return width;
    while (!space_->goes_by(width)) width /= 2;
    return width;
  }

  /// Whether the k-th read input goes along with the innermost dim.
  bool moves(size_t k) const { return space_->strides[k].back() != 0; }

  std::string operand_text(const FusedOperand& o) const {
    if (o.kind == Kind::kNumber) return literal(types_.number, o.number);
    return (o.kind == Kind::kInput ? "x" : "v") + std::to_string(o.index);
  }
  DType operand_type(const FusedOperand& o) const {
    const size_t i = index_of(o.index);
    if (o.kind == Kind::kNumber) return types_.number;
    return o.kind == Kind::kInput ? computed(view_.inputs[i]).dtype : types_.instructions[i].dtype;
  }

  static std::string joined(const std::string& a, const std::string& b) {
    return a.empty() || b.empty() ? a + b : a + " + " + b;
  }

  /// The work on one element, or `width` of them, at the offsets that `texts` give together.
  std::string body(const std::string& indent, int64_t width, std::vector<IndexText*> texts) {
    std::string loads, inner, stores;
    const std::string in = width > 1 ? indent + "  " : indent;
    const auto pack = [&](DType dtype) {
      return "Pack<" + std::string(stored_type(dtype)) + ", " + std::to_string(width) + ">";
    };
    for (size_t k = 0; k < inputs_.size(); ++k) {
      const std::string number = std::to_string(inputs_[k]);
      const DType dtype = view_.inputs[inputs_[k]].dtype;
      std::string at;
      for (IndexText* t : texts) at = joined(at, t->offset(k));
      const bool packed = width > 1 && moves(k);
      std::string value = "args.x" + number + "[" + (at.empty() ? "0" : at) + "]";
      if (packed) {
        loads += indent + "const " + pack(dtype) + " p" + number + " = *reinterpret_cast<const " +
                 pack(dtype) + "*>(args.x" + number + (at.empty() ? "" : " + " + at) + ");\n";
        value = "p" + number + ".at[k]";
      }
      if (dtype == DType::kBFloat16) value = "widen(" + value + ")";
      (packed ? inner : loads) += (packed ? in : indent) + "const " +
                                  std::string(computed_type(dtype)) + " x" + number + " = " +
                                  value + ";\n";
    }
    for (size_t i = 0; i < live_.size(); ++i) {
      if (!live_[i]) continue;
      std::vector<std::string> operands;
      std::vector<DType> in_types;
      for (const FusedOperand& o : instruction(i).operands) {
        operands.push_back(operand_text(o));
        in_types.push_back(operand_type(o));
      }
      const DType type = types_.instructions[i].dtype;
      inner += in + "const " + std::string(computed_type(type)) + " v" + std::to_string(i) + " = " +
               expression(instruction(i).op, instruction(i).attrs, operands, in_types, type) +
               ";\n";
    }
    std::string at;
    for (IndexText* t : texts) {
      if (!stored_.empty()) at = joined(at, t->dense_offset());
    }
    for (const Stored& s : stored_) {
      const std::string number = std::to_string(s.output);
      const DType dtype = view_.outputs[s.output].dtype;
      std::string value = "v" + std::to_string(s.instruction);
      if (dtype == DType::kBFloat16) value = "to_bf16(" + value + ")";
      if (width > 1) {
        loads += indent + pack(dtype) + " q" + number + ";\n";
        inner += in + "q" + number + ".at[k] = " + value + ";\n";
        stores += indent + "*reinterpret_cast<" + pack(dtype) + "*>(args.y" + number +
                  (at.empty() ? "" : " + " + at) + ") = q" + number + ";\n";
      } else {
        stores +=
            indent + "args.y" + number + "[" + (at.empty() ? "0" : at) + "] = " + value + ";\n";
      }
    }
    for (size_t n = 0; n < sums_.size(); ++n) {
      const FusedOperand& o = instruction(sums_[n]).operands[0];
      inner += in + "s" + std::to_string(n) + " += static_cast<" +
               std::string(accumulator(operand_type(o))) + ">(" + operand_text(o) + ");\n";
    }
    if (width > 1) {
      inner = "#pragma unroll\n" + indent + "for (int k = 0; k < " + std::to_string(width) +
              "; ++k) {\n" + inner + indent + "}\n";
    }
    return loads + inner + stores;
  }

  /// A loop over all threads of the grid.
  void write_loop(const std::string& first, int64_t end, int64_t width) {
    IndexText index(*space_, false, "i", width, wide_);
    const std::string text = body("    ", width, {&index});
    code_ += "  for (" + index_ + " i = " + first + "static_cast<" + index_ +
             ">(global_index()); i < " + index.constant(end) + "; i += static_cast<" + index_ +
             ">(global_size())) {\n" + index.declarations("    ") + text + "  }\n";
  }

  void write_map(GeneratedKernel& kernel) {
    const int64_t total = element_count(types_.shape), width = pack_width(true);
    write_loop("", total / width, width);
    if (total % width != 0) {
      const IndexText index(*space_, false, "i", 1, wide_);
      write_loop(index.constant(total / width * width) + " + ", total, 1);
    }
    kernel.grid = blocks_for(total / width);
  }

  void write_sums(GeneratedKernel& kernel) {
    const bool rows = space_->is_inner_reduced();
    const int64_t width = rows ? pack_width(false) : 1;
    const int64_t kept = space_->size(false), reduced = space_->size(true) / width;
    // Threads of a block: lanes over results times lanes over what each of them sums.
    int64_t lanes = kThreads;
    if (!rows) {
      lanes = std::min(kThreads / std::min<int64_t>(32, power_of_two_from(kept)),
                       power_of_two_from(reduced));
    } else if (reduced <= 512) {
      lanes = std::min<int64_t>(32, power_of_two_from(div_up(reduced, 4)));
    }
    const int64_t results = kThreads / lanes, tiles = div_up(kept, results);
    int64_t parts =
        std::clamp<int64_t>(std::min(kBlocks / tiles, reduced / (lanes * kPartSteps)), 1, kBlocks);
    const int64_t part = div_up(div_up(reduced, parts), lanes) * lanes;
    parts = div_up(reduced, part);

    IndexText o(*space_, false, "o", width, wide_), r(*space_, true, "r", width, wide_);
    const std::string text = body("        ", width, {&o, &r});
    const auto constant = [&](int64_t n) { return o.constant(n); };
    const std::string lane = "threadIdx.x % ", group = "threadIdx.x / ";
    code_ +=
        "  const u32 row = " +
        (rows ? group + std::to_string(lanes) : lane + std::to_string(results)) +
        "u, lane = " + (rows ? lane + std::to_string(lanes) : group + std::to_string(results)) +
        "u;\n";
    code_ += "  for (" + index_ + " task = blockIdx.x; task < " + constant(tiles * parts) +
             "; task += gridDim.x) {\n";
    code_ += "    const " + index_ + " o = task" + (parts > 1 ? " % " + constant(tiles) : "") +
             " * " + constant(results) + " + row;\n";
    if (parts > 1) code_ += "    const " + index_ + " part = task / " + constant(tiles) + ";\n";
    for (size_t n = 0; n < sums_.size(); ++n) {
      code_ +=
          "    " + std::string(accumulator(sum_type(n))) + " s" + std::to_string(n) + " = 0;\n";
    }
    code_ += "    if (o < " + constant(kept) + ") {\n" + o.declarations("      ");
    std::string end = constant(reduced), begin = "lane";
    if (parts > 1) {
      code_ += "      const " + index_ + " begin = part * " + constant(part) + ";\n";
      code_ += "      const " + index_ + " end = begin + " + constant(part) + " < " + end +
               " ? begin + " + constant(part) + " : " + end + ";\n";
      end = "end";
      begin = "begin + lane";
    }
    code_ += "      for (" + index_ + " r = " + begin + "; r < " + end +
             "; r += " + constant(lanes) + ") {\n" + r.declarations("        ") + text +
             "      }\n    }\n";
    for (size_t n = 0; n < sums_.size(); ++n) {
      const std::string s = "s" + std::to_string(n), zero = std::string(accumulator(sum_type(n)));
      if (lanes == 1) continue;
      code_ += "    " + s + " = ";
      if (!rows) {
        code_ += "column_sum<" + std::to_string(results) + ", " + std::to_string(lanes) + ">(" + s;
      } else if (lanes == kThreads) {
        code_ += "block_join<SumOf>(" + s + ", " + zero + "(0)";
      } else {
        code_ += "group_sum<" + std::to_string(lanes) + ">(" + s;
      }
      code_ += ");\n";
    }
    code_ += "    if (lane == 0 && o < " + constant(kept) + ") {\n";
    for (size_t n = 0; n < sums_.size(); ++n) code_ += store_sum(n, parts, kept, constant(kept));
    code_ += "    }\n  }\n";
    kernel.grid = blocks_of(tiles * parts);
  }

  DType sum_type(size_t n) const { return operand_type(instruction(sums_[n]).operands[0]); }

  std::string store_sum(size_t n, int64_t parts, int64_t kept, const std::string& kept_text) {
    const auto& results = view_.program.results;
    const auto found = std::find(results.begin(), results.end(), static_cast<int32_t>(sums_[n]));
    const auto output = static_cast<size_t>(found - results.begin());
    const DType dtype = view_.outputs[output].dtype;
    const std::string s = "s" + std::to_string(n);
    if (parts > 1) {
      const std::string member = "parts" + std::to_string(n);
      sum_members_ += "  " + std::string(accumulator(dtype)) + "* " + member + ";\n";
      to_.scratch_bytes = (to_.scratch_bytes + 255) / 256 * 256;
      sum_pointers_.push_back({Pointer::Kind::kScratch, to_.scratch_bytes});
      to_.partial_sums.push_back({output, to_.scratch_bytes, parts, kept});
      to_.scratch_bytes += static_cast<size_t>(parts * kept) * accumulator_bytes(dtype);
      return "      args." + member + "[part * " + kept_text + " + o] = " + s + ";\n";
    }
    const std::string member = "y" + std::to_string(output);
    sum_members_ += "  " + std::string(stored_type(dtype)) + "* " + member + ";\n";
    sum_pointers_.push_back({Pointer::Kind::kOutput, output});
    std::string value = "static_cast<" + std::string(computed_type(dtype)) + ">(" + s + ")";
    if (dtype == DType::kBFloat16) value = "to_bf16(" + s + ")";
    return "      args." + member + "[o] = " + value + ";\n";
  }

  const ProgramView& view_;
  const FusedTypes& types_;
  std::vector<size_t> sums_;  // instructions
  Generated& to_;
  std::vector<Stored> stored_;
  std::vector<bool> live_;
  std::vector<size_t> inputs_;  // that are read
  std::optional<Space> space_;
  bool wide_ = false;
  std::string index_;  // its type
  std::string code_, sum_members_;
  std::vector<Pointer> sum_pointers_;
};

}  // namespace

Support takes_program(const ProgramView& view) {
  const FusedTypes types = fused_types(view.program, view.inputs);
  for (const auto* list : {&view.inputs, &view.outputs}) {
    for (const TensorType& t : *list) {
      if (t.layout != Layout::kPlain) return Support::no("takes plain operands");
    }
  }
  // Sums that are cut into parts have no pointers but those of their outputs and parts.
  if (view.inputs.size() + 2 * view.outputs.size() > kMaxPointers) {
    return Support::no("takes at most " + std::to_string(kMaxPointers) + " operands");
  }
  for (size_t i = 0; i < view.program.instructions.size(); ++i) {
    const FusedInstruction& instruction = view.program.instructions[i];
    std::vector<DType> in;
    for (const FusedOperand& o : instruction.operands) {
      const size_t index = index_of(o.index);
      in.push_back(o.kind == Kind::kNumber  ? types.number
                   : o.kind == Kind::kInput ? computed(view.inputs[index]).dtype
                                            : types.instructions[index].dtype);
    }
    const DType type = types.instructions[i].dtype;
    Support s =
        has_expression(instruction.op == Op::kReduceSum ? Op::kIdentity : instruction.op, in, type);
    if (!s.ok) return s;
  }
  return Support::yes();
}

Support takes_program_in_place(const ProgramView& view) {
  const FusedTypes types = fused_types(view.program, view.inputs);
  const TensorType& out = view.outputs[0];
  if (view.program.instructions[index_of(view.program.results[0])].op == Op::kReduceSum) {
    return Support::no("the first output is a sum");
  }
  for (const TensorType& t : view.inputs) {
    // Of the same type it has all the elements: each is read where the result goes.
    if (t.bytes() == out.bytes() && t.dtype != out.dtype) {
      return Support::no("an operand of the result's size is of another type");
    }
  }
  return takes_program(view);
}

Generated generate(const ProgramView& view) {
  const FusedTypes types = fused_types(view.program, view.inputs);
  Generated generated;
  const bool empty = element_count(types.shape) == 0;
  struct Pattern {
    std::vector<bool> reduced;
    std::vector<size_t> sums;
  };
  std::vector<Pattern> patterns;
  bool stores = false;
  for (size_t k = 0; k < view.program.results.size(); ++k) {
    const size_t i = index_of(view.program.results[k]);
    const FusedInstruction& instruction = view.program.instructions[i];
    if (instruction.op != Op::kReduceSum) {
      stores = true;
      continue;
    }
    if (empty) generated.zeroed.push_back(k);
    const std::vector<bool> reduced = reduced_axes(instruction, types.shape);
    const auto same = std::find_if(patterns.begin(), patterns.end(),
                                   [&](const Pattern& p) { return p.reduced == reduced; });
    if (same != patterns.end())
      same->sums.push_back(i);
    else
      patterns.push_back({reduced, {i}});
  }
  if (empty) return generated;
  if (patterns.empty()) patterns.push_back({std::vector<bool>(types.shape.size(), false), {}});
  for (size_t p = patterns.size(); p-- > 0;) {
    KernelWriter(view, types, patterns[p].sums, patterns[p].reduced, stores && p == 0, generated)
        .write();
  }
  return generated;
}

}  // namespace trainrt::cuda
