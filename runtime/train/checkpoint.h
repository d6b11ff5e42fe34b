// The checkpoint file. Little-endian:
//   8 bytes   "TRAINRT\1"
//   u32       version (1)
//   u32       CRC-32 (zlib) of everything behind this header
//   u64       length of everything behind this header
//   u32       number of text entries;   each: name, bytes
//   u32       number of tensors;        each: name, u8 dtype, u8 rank, i64 dims, zero bytes up to a
//             multiple of 64 from the start of the file, elements
// A name or a byte string is a u32 length and the bytes.
#ifndef TRAINRT_RUNTIME_TRAIN_CHECKPOINT_H_
#define TRAINRT_RUNTIME_TRAIN_CHECKPOINT_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trainrt/tensor.h"

namespace trainrt {

/// Tensor names carry what they are: "parameter/NAME", "buffer/NAME", "optimizer/SLOT/NAME",
/// "gradient/NAME". Text entries of a trainer: kind, step, rng_step, seed, micro_step, epoch,
/// batch, extra, options, working, and "updates/SLOT" where moments have seen other numbers of
/// updates than `step`.
struct Checkpoint {
  std::map<std::string, std::string> text;
  std::vector<std::pair<std::string, Tensor>> tensors;

  /// Undefined when there is none.
  Tensor find(const std::string& name) const;
  /// Throws Error(kFile) when the entry is missing or no number.
  int64_t number(const std::string& name) const;
};

/// Writes PATH.tmp-PID, syncs and renames it. Throws Error(kFile); no partial file is left.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
/// Throws Error(kFile) saying what is wrong: no such file, no checkpoint, another version, cut off,
/// damaged.
Checkpoint read_checkpoint(const std::string& path);
bool is_checkpoint(const std::string& path);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_TRAIN_CHECKPOINT_H_
