#ifndef TRAINRT_KERNELS_CUDA_DEVICE_MOVEMENT_H_
#define TRAINRT_KERNELS_CUDA_DEVICE_MOVEMENT_H_

#include "kernels/cuda/device/strided.h"

namespace trainrt::cuda {

// Elements here are of 1, 2, 4, 8 or 16 bytes: of the tensors or several of those at once.

/// out[out_base + …] = in[in_base + …]; the walk's operands are in and out.
struct CopyArguments {
  const void* in;
  void* out;
  long long count, in_base, out_base;
  Walk<2> walk;
};

inline constexpr int kTile = 32;

/// Matrices [rows, columns] with columns contiguous in `in` and rows in `out`, by tiles of kTile
/// squared. The walk (in, out) is over the matrices.
struct TransposeArguments {
  const void* in;
  void* out;
  long long rows, columns, in_row, out_column;  // distance of rows in `in`, of columns in `out`
  long long tiles, row_tiles, column_tiles;     // of all matrices, of one
  Divisor by_row_tiles, by_column_tiles;
  Walk<2> walk;
};

enum class Border : int { kFill, kReflect, kEdge, kWrap };

/// Per axis: `kept` cells, which lie `before` from the border of the padded tensor and `crop` from
/// the border of the whole one.
struct PadAxis {
  Divisor divisor;  // of padded (pad) or whole (fold)
  long long padded, before, kept, whole, crop;
  long long stride;  // of the input
};

/// pad: in is the whole tensor, out the padded one, whose other cells get the fill value or repeat
/// kept ones. fold: the adjoint of that for all borders but kFill.
struct PadArguments {
  const void* in;
  void* out;
  long long count;  // of out
  Border border;
  int rank;
  unsigned long long fill[2];
  PadAxis axes[kMaxWalkRank];
};

inline constexpr int kMaxParts = 64;

/// Neighbouring parts of a tensor along an axis, as rows.
struct PartsArguments {
  void* whole;  // from the first of the parts
  void* parts[kMaxParts];
  long long ends[kMaxParts];  // of the parts in a row of these parts
  long long count;            // elements of these parts
  long long width, row;       // elements of a row: of these parts, of the whole
  Divisor by_width;
  int number;
};

/// Column c of row r is kept where c - r >= k (upper) or <= k (lower), otherwise 0.
struct TriluArguments {
  const void* in;
  void* out;
  long long count, rows, columns, k;
  Divisor by_rows, by_columns;
  bool upper;
};

}  // namespace trainrt::cuda

#endif  // TRAINRT_KERNELS_CUDA_DEVICE_MOVEMENT_H_
