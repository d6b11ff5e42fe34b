// Programs of elementwise ops, run tile by tile: an instruction is one call of the op's loop over a
// tile that lies in the first-level cache. How the work is cut depends on the shape only.
#include "graph/fused.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "kernels/cpu/bfloat16.h"
#include "kernels/cpu/fused_input.h"
#include "kernels/cpu/fused_instruction.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_ops.h"

namespace trainrt {
namespace {

using Kind = FusedOperand::Kind;

constexpr size_t kMaxBuffers = 64;
constexpr int64_t kTileFloats = 8192;  // of all buffers together
constexpr int64_t kPad = 16;           // floats; also between buffers, against distances of 4 KiB
constexpr int64_t kLongRow = 512;      // rows from here on are cut into tiles of their own
constexpr int64_t kMaxParts = 16;
constexpr int64_t kPartElements = 32768;

struct Sum {
  size_t slot = 0, output = 0;
  std::vector<int64_t> strides;
  int64_t size = 0;
  bool whole_rows = false;  // each element is the sum of one row
  size_t scratch = 0;  // a copy for each part: of doubles when the rows are summed, else floats

  bool sums_rows() const { return strides.back() == 0; }
};

/// An output that is stored at the end of a tile.
struct Deferred {
  size_t output, slot;
  bool bf16;
};

class FusedKernel final : public Kernel {
 public:
  /// Empty when there are too many operands; `why` says so.
  static std::optional<FusedKernel> make(const NodeView& node, Scratch* scratch, std::string* why) {
    FusedKernel kernel;
    if (!kernel.build(node, scratch, why)) return std::nullopt;
    return kernel;
  }

  void run(const KernelArgs& args) const override {
    if (total_ == 0) {
      for (const Sum& s : sums_) std::fill_n(args.output<float>(s.output), s.size, 0.0f);
      return;
    }
    if (parts_ == 0) {
      const int64_t work = rows_ * chunk_ * (1 + static_cast<int64_t>(code_.size()) / 2);
      parallel_items(tiles_, work,
                     [&](int64_t begin, int64_t end) { run_tiles(args, begin, end, 0); });
      return;
    }
    parallel_ranges(parts_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        for (const Sum& s : sums_) {
          if (!s.whole_rows) std::memset(partial(args, s, p), 0, partial_bytes(s));
        }
        run_tiles(args, tiles_ * p / parts_, tiles_ * (p + 1) / parts_, p);
      }
    });
    for (const Sum& s : sums_) {
      if (!s.whole_rows) add_parts(args, s);
    }
  }

 private:
  // Planning.

  bool build(const NodeView& node, Scratch* scratch, std::string* why) {
    const FusedProgram program = parse_fused(node.attr<FusedAttrs>().program);
    const FusedTypes types = fused_types(program, node.inputs);
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (const TensorType& t : *list) {
        if (computed(t).dtype != DType::kFloat32 && t.dtype != DType::kBool) {
          *why = "takes float32 and bool, not " + std::string(dtype_name(t.dtype));
          return false;
        }
      }
    }
    merge_dims(program, types, node);
    if (!find_buffers(program, types, node, why)) return false;
    if (scratch != nullptr) book_sums(*scratch);
    return true;
  }

  /// Strides of a sum over the axes of the iteration space.
  static std::vector<int64_t> sum_strides(const Shape& shape, const ReduceAttrs& attrs) {
    Shape kept = shape;
    for (int64_t a : attrs.axes) kept[static_cast<size_t>(a)] = 1;
    return broadcast_strides(kept, shape);
  }

  void merge_dims(const FusedProgram& program, const FusedTypes& types, const NodeView& node) {
    std::vector<std::vector<int64_t>> strides;  // of inputs, then of sums
    for (const TensorType& t : node.inputs)
      strides.push_back(broadcast_strides(t.shape, types.shape));
    for (const FusedInstruction& i : program.instructions) {
      if (i.op == Op::kReduceSum) {
        strides.push_back(sum_strides(types.shape, std::get<ReduceAttrs>(i.attrs)));
      }
    }
    std::vector<std::vector<int64_t>> merged(strides.size());
    for (size_t d = 0; d < types.shape.size(); ++d) {
      const int64_t size = types.shape[d];
      total_ *= size;
      if (size == 1) continue;
      bool merge = !dims_.empty();
      for (size_t k = 0; k < strides.size() && merge; ++k) {
        merge = merged[k].back() == strides[k][d] * size;
      }
      if (!merge) dims_.push_back(1);
      dims_.back() *= size;
      for (size_t k = 0; k < strides.size(); ++k) {
        if (!merge) merged[k].push_back(0);
        merged[k].back() = strides[k][d];
      }
    }
    if (dims_.empty()) {
      dims_ = {1};
      for (auto& m : merged) m = {0};
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs_.push_back({FusedSource::kDirect, dtype_size(node.inputs[i].dtype), merged[i], 0,
                         is_dense(merged[i], dims_.size())});
    }
    for (size_t k = node.inputs.size(); k < merged.size(); ++k) {
      sums_.push_back({0, 0, merged[k], 0, false, 0});
    }
  }

  /// Rows of `inner` elements in a tile, or a piece of one row.
  void cut(size_t buffers) {
    const int64_t inner = dims_.back();
    const int64_t room = kTileFloats / static_cast<int64_t>(std::max<size_t>(buffers, 1)) / 16 * 16;
    const int64_t tile = std::min<int64_t>(room, 2048);
    by_rows_ = inner < kLongRow && 2 * inner <= tile;
    const int64_t lines = total_ / std::max<int64_t>(inner, 1);
    if (by_rows_) {
      rows_ = std::max<int64_t>(1, std::min(tile / std::max<int64_t>(inner, 1), lines));
      chunk_ = inner;
      chunks_ = 1;
      tiles_ = (lines + rows_ - 1) / rows_;
    } else {
      rows_ = 1;
      chunks_ = (inner + tile - 1) / tile;
      chunk_ = ((inner + chunks_ - 1) / chunks_ + 15) / 16 * 16;
      chunks_ = (inner + chunk_ - 1) / chunk_;
      tiles_ = lines * chunks_;
    }
    lines_ = lines;
  }

  /// Over the first `rank` dims.
  bool is_dense(const std::vector<int64_t>& strides, size_t rank) const {
    int64_t dense = 1;
    for (size_t d = rank; d-- > 0; dense *= dims_[d]) {
      if (strides[d] != dense) return false;
    }
    return true;
  }

  FusedSource source_of(const FusedInput& input) const {
    if (input.dense) {
      return input.bf16() ? FusedSource::kGathered : FusedSource::kDirect;
    }
    const bool outer_moves = std::any_of(input.strides.begin(), input.strides.end() - 1,
                                         [](int64_t s) { return s != 0; });
    if (!by_rows_) {
      if (input.bf16()) return FusedSource::kGathered;
      return input.strides.back() == 0 ? FusedSource::kNumber : FusedSource::kDirect;
    }
    if (outer_moves) return FusedSource::kGathered;
    return input.strides.back() == 0 && !input.bf16() ? FusedSource::kNumber
                                                      : FusedSource::kRepeated;
  }

  // Which tiles fit depends on the number of buffers, and which inputs need one on the tiles.
  bool find_buffers(const FusedProgram& program, const FusedTypes& types, const NodeView& node,
                    std::string* why) {
    for (size_t assumed = 4; assumed <= kMaxBuffers; assumed *= 2) {
      cut(assumed);
      if (!assign(program, types, node, why)) return false;
      if (buffers_ <= assumed) return true;
    }
    *why = "keeps at most " + std::to_string(kMaxBuffers) + " intermediate values";
    return false;
  }

  // Slots: inputs, outputs, buffers, numbers.
  size_t output_slot(size_t i) const { return inputs_.size() + i; }
  size_t buffer_slot(size_t i) const { return inputs_.size() + outputs_.size() + i; }
  size_t number_slot(size_t i) const { return buffer_slot(kMaxBuffers) + i; }

  const FusedInput& input_of(const FusedOperand& o) const {
    return inputs_[static_cast<size_t>(o.index)];
  }

  bool is_number(const FusedOperand& o) const {
    return o.kind == Kind::kNumber ||
           (o.kind == Kind::kInput && input_of(o).source == FusedSource::kNumber);
  }

  void choose_sources(const FusedProgram& program) {
    for (FusedInput& input : inputs_) input.source = source_of(input);
    for (const FusedInstruction& i : program.instructions) {
      const bool all = std::all_of(i.operands.begin(), i.operands.end(),
                                   [&](const FusedOperand& o) { return is_number(o); });
      for (const FusedOperand& o : i.operands) {
        if (o.kind != Kind::kInput || !is_number(o)) continue;
        // Loops want an array at least once, and arrays of bool.
        FusedInput& input = inputs_[static_cast<size_t>(o.index)];
        if (all || input.bytes == 1) input.source = FusedSource::kGathered;
      }
    }
  }

  bool assign(const FusedProgram& program, const FusedTypes& types, const NodeView& node,
              std::string* why) {
    const auto count = static_cast<int32_t>(program.instructions.size());
    code_.clear();
    numbers_.clear();
    outputs_.assign(program.results.size(), 0);
    buffers_ = 0;
    deferred_.clear();
    choose_sources(program);
    for (FusedInput& input : inputs_) {
      const bool copied =
          input.source == FusedSource::kRepeated || input.source == FusedSource::kGathered;
      if (copied) input.buffer = buffers_++;
    }

    std::vector<int32_t> result_of(program.instructions.size(), -1);
    for (size_t k = 0; k < program.results.size(); ++k) {
      result_of[static_cast<size_t>(program.results[k])] = static_cast<int32_t>(k);
    }
    // Sums are taken behind the last instruction.
    std::vector<int32_t> last_use(program.instructions.size(), -1);
    int32_t last_direct = -1;
    for (int32_t i = 0; i < count; ++i) {
      const FusedInstruction& from = program.instructions[static_cast<size_t>(i)];
      const int32_t time = from.op == Op::kReduceSum ? count : i;
      for (const FusedOperand& o : from.operands) {
        int32_t& last =
            o.kind == Kind::kResult ? last_use[static_cast<size_t>(o.index)] : last_direct;
        const bool direct = o.kind == Kind::kInput && input_of(o).source == FusedSource::kDirect;
        if (o.kind == Kind::kResult || direct) last = std::max(last, time);
      }
    }

    std::vector<size_t> free, slot_of(program.instructions.size());
    size_t sum = 0;
    for (int32_t i = 0; i < count; ++i) {
      const FusedInstruction& from = program.instructions[static_cast<size_t>(i)];
      const int32_t result = result_of[static_cast<size_t>(i)];
      std::vector<DType> in_types;
      std::array<bool, 3> moves{};
      std::array<size_t, 3> slots{};
      for (size_t k = 0; k < from.operands.size(); ++k) {
        const FusedOperand& o = from.operands[k];
        const auto index = static_cast<size_t>(o.index);
        moves[k] = !is_number(o);
        if (o.kind == Kind::kNumber) {
          in_types.push_back(types.number);
          slots[k] = number_slot(numbers_.size());
          numbers_.push_back(static_cast<float>(o.number));
        } else if (o.kind == Kind::kInput) {
          const FusedInput& input = inputs_[index];
          const bool in_place =
              input.source == FusedSource::kDirect || input.source == FusedSource::kNumber;
          in_types.push_back(computed(node.inputs[index]).dtype);
          slots[k] = in_place ? index : buffer_slot(input.buffer);
        } else {
          in_types.push_back(types.instructions[index].dtype);
          slots[k] = slot_of[index];
        }
      }
      if (number_slot(numbers_.size()) > kFusedSlots) {
        *why = "takes at most " + std::to_string(kFusedSlots - kMaxBuffers) + " operands";
        return false;
      }
      const DType type = types.instructions[static_cast<size_t>(i)].dtype;
      if (from.op == Op::kReduceSum) {
        if (type != DType::kFloat32 || result < 0 ||
            is_bf16(node.outputs[static_cast<size_t>(result)])) {
          *why = "sums float32 results";
          return false;
        }
        Sum& s = sums_[sum++];
        s.slot = slots[0];
        s.output = static_cast<size_t>(result);
        s.size = types.instructions[static_cast<size_t>(i)].size();
        s.whole_rows = chunks_ == 1 && s.sums_rows() && is_dense(s.strides, dims_.size() - 1);
        continue;
      }
      std::optional<FusedCall> instruction = select_call(from, in_types, moves);
      if (!instruction) {
        *why = "has no loop for " + std::string(op_info(from.op).name);
        return false;
      }
      const auto release = [&] {
        for (size_t k = 0; k < from.operands.size(); ++k) {
          const FusedOperand& o = from.operands[k];
          if (o.kind != Kind::kResult || last_use[static_cast<size_t>(o.index)] != i) continue;
          const bool leaves = result_of[static_cast<size_t>(o.index)] >= 0;
          const bool seen = std::find(free.begin(), free.end(), slots[k]) != free.end();
          if (!leaves && !seen) free.push_back(slots[k]);
        }
      };
      // A buffer is written while it is read only by loops that move evenly through both.
      const bool even =
          std::all_of(in_types.begin(), in_types.end(), [&](DType t) { return t == type; });
      if (even) release();
      // The first output may lie on an input that is still to be read.
      const bool bf16 = result >= 0 && is_bf16(node.outputs[static_cast<size_t>(result)]);
      const bool defer = bf16 || (result == 0 && i < last_direct);
      size_t out = 0;
      if (result >= 0 && !defer) {
        out = output_slot(static_cast<size_t>(result));
      } else if (free.empty()) {
        out = buffer_slot(buffers_++);
      } else {
        out = free.back();
        free.pop_back();
      }
      if (defer) deferred_.push_back({static_cast<size_t>(result), out, bf16});
      if (result >= 0) {
        outputs_[static_cast<size_t>(result)] = bf16 ? sizeof(uint16_t) : dtype_size(type);
      }
      if (!even) release();
      if (buffers_ > kMaxBuffers) return true;  // find_buffers() refuses
      slot_of[static_cast<size_t>(i)] = out;
      for (size_t k = 0; k < 3; ++k) instruction->in[k] = static_cast<uint8_t>(slots[k]);
      instruction->out = static_cast<uint8_t>(out);
      code_.push_back(*instruction);
    }
    return true;
  }

  void book_sums(Scratch& scratch) {
    int64_t largest = 0;
    for (const Sum& s : sums_) {
      if (!s.whole_rows) largest = std::max(largest, std::max<int64_t>(s.size, 1));
    }
    if (largest == 0 || total_ == 0) return;
    parts_ = std::clamp<int64_t>(total_ / std::max(kPartElements, 4 * largest), 1,
                                 std::min(kMaxParts, tiles_));
    for (Sum& s : sums_) {
      if (!s.whole_rows) s.scratch = book(scratch, partial_bytes(s) * static_cast<size_t>(parts_));
    }
  }

  // Running.

  static size_t partial_bytes(const Sum& s) {
    const size_t element = s.sums_rows() ? sizeof(double) : sizeof(float);
    return (static_cast<size_t>(s.size) * element + 63) / 64 * 64;
  }

  static std::byte* partial(const KernelArgs& args, const Sum& s, int64_t part) {
    return scratch_at<std::byte>(args, s.scratch) + partial_bytes(s) * static_cast<size_t>(part);
  }

  void run_tiles(const KernelArgs& args, int64_t begin, int64_t end, int64_t part) const {
    alignas(64) float storage[kTileFloats + static_cast<int64_t>(kMaxBuffers) * 2 * kPad];
    const int64_t stride = (rows_ * chunk_ + kPad - 1) / kPad * kPad + kPad;
    FusedSlots slots;
    for (size_t b = 0; b < buffers_; ++b) {
      float* buffer = storage + static_cast<int64_t>(b) * stride;
      slots[buffer_slot(b)] = reinterpret_cast<std::byte*>(buffer);
    }
    for (size_t i = 0; i < numbers_.size(); ++i) {
      slots[number_slot(i)] = reinterpret_cast<std::byte*>(const_cast<float*>(&numbers_[i]));
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].source != FusedSource::kRepeated) continue;
      copy_input(dims_, inputs_[i], args.in[i], {0, rows_, 0, chunk_},
                 slots[buffer_slot(inputs_[i].buffer)]);
    }
    for (int64_t t = begin; t < end; ++t) {
      const int64_t line = t / chunks_ * rows_, column = t % chunks_ * chunk_;
      const int64_t rows = std::min(rows_, lines_ - line);
      const int64_t width = std::min(chunk_, dims_.back() - column);
      const int64_t n = rows * width, first = line * dims_.back() + column;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const FusedInput& input = inputs_[i];
        if (input.source == FusedSource::kGathered) {
          copy_input(dims_, input, args.in[i], {line, rows, column, width},
                     slots[buffer_slot(input.buffer)]);
        } else if (input.source != FusedSource::kRepeated) {
          const int64_t at =
              FusedLines(dims_, input.strides, line).offset() + column * input.strides.back();
          slots[i] = static_cast<std::byte*>(const_cast<void*>(args.in[i])) +
                     at * static_cast<int64_t>(input.bytes);
        }
      }
      for (size_t k = 0; k < outputs_.size(); ++k) {
        slots[output_slot(k)] = static_cast<std::byte*>(args.out[k]) +
                                (outputs_[k] == 0 ? 0 : first * static_cast<int64_t>(outputs_[k]));
      }
      for (const FusedCall& i : code_) i.call(i, slots, n);
      for (const Sum& s : sums_) add_tile(args, s, slots, part, line, rows, column, width);
      for (const Deferred& d : deferred_) {
        std::byte* to = slots[output_slot(d.output)];
        if (d.bf16) {
          to_bf16(reinterpret_cast<const float*>(slots[d.slot]), reinterpret_cast<uint16_t*>(to),
                  n);
        } else {
          std::memcpy(to, slots[d.slot], static_cast<size_t>(n) * outputs_[d.output]);
        }
      }
    }
  }

  void add_tile(const KernelArgs& args, const Sum& s, const FusedSlots& slots, int64_t part,
                int64_t line, int64_t rows, int64_t column, int64_t width) const {
    const VectorOps& v = vector_ops();
    const float* x = reinterpret_cast<const float*>(slots[s.slot]);
    if (s.whole_rows) {
      float* y = args.output<float>(s.output) + line;
      for (int64_t r = 0; r < rows; ++r) y[r] = static_cast<float>(v.sum(x + r * width, width));
      return;
    }
    std::byte* acc = partial(args, s, part);
    const bool one_line = std::all_of(s.strides.begin(), s.strides.end() - 1,
                                      [](int64_t stride) { return stride == 0; });
    FusedLines lines(dims_, s.strides, line);
    if (s.sums_rows()) {
      double* y = reinterpret_cast<double*>(acc);
      if (one_line) {
        y[0] += v.sum(x, rows * width);
        return;
      }
      for (int64_t r = 0; r < rows; ++r, lines.next())
        y[lines.offset()] += v.sum(x + r * width, width);
      return;
    }
    float* y = reinterpret_cast<float*>(acc) + column;
    if (one_line && rows > 1) {
      float columns[kLongRow];
      v.column_sum(x, rows, width, columns, width);
      v.add(columns, y, y, width);
      return;
    }
    for (int64_t r = 0; r < rows; ++r, lines.next()) {
      float* to = y + lines.offset();
      v.add(x + r * width, to, to, width);
    }
  }

  void add_parts(const KernelArgs& args, const Sum& s) const {
    float* y = args.output<float>(s.output);
    const auto add = [&]<typename T>(std::type_identity<T>, int64_t j) {
      double total = 0;
      for (int64_t p = 0; p < parts_; ++p) {
        total += static_cast<double>(reinterpret_cast<const T*>(partial(args, s, p))[j]);
      }
      y[j] = static_cast<float>(total);
    };
    parallel_ranges(s.size, kParallelElements / kMaxParts, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        if (s.sums_rows())
          add(std::type_identity<double>{}, j);
        else
          add(std::type_identity<float>{}, j);
      }
    });
  }

  int64_t total_ = 1;
  std::vector<int64_t> dims_;  // of the iteration space, merged
  int64_t lines_ = 0, tiles_ = 0;
  int64_t rows_ = 1, chunk_ = 0, chunks_ = 1;  // of a tile; pieces of a row
  bool by_rows_ = false;
  int64_t parts_ = 0;  // that keep sums of their own; 0: no sums but of whole rows
  std::vector<FusedInput> inputs_;
  std::vector<Sum> sums_;
  std::vector<size_t> outputs_;  // bytes of an element; 0: a sum
  std::vector<FusedCall> code_;
  std::vector<float> numbers_;
  size_t buffers_ = 0;
  std::vector<Deferred> deferred_;
};

Support takes_fused(const NodeView& node) {
  std::string why;
  return FusedKernel::make(node, nullptr, &why) ? Support::yes() : Support::no(why);
}

/// The first output covers the iteration space: an input of as many bytes goes in step with it.
Support takes_fused_in_place(const NodeView& node) {
  int64_t largest = 0;
  for (const TensorType& t : node.inputs) largest = std::max(largest, t.size());
  const TensorType& out = node.outputs[0];
  if (computed(out).dtype != DType::kFloat32 || out.size() != largest) {
    return Support::no("the first output is no float result of full size");
  }
  return takes_fused(node);
}

std::unique_ptr<Kernel> plan_fused(const NodeView& node, Scratch& scratch) {
  std::string why;
  return std::make_unique<FusedKernel>(*FusedKernel::make(node, &scratch, &why));
}

constexpr KernelRow kRows[] = {
    {Op::kFused, "cpu.fused", takes_fused_in_place, plan_fused, true, false, true},
    {Op::kFused, "cpu.fused", takes_fused, plan_fused, false, false, true},
};

}  // namespace

std::span<const KernelRow> fused_rows() { return kRows; }

}  // namespace trainrt
