// How a convolution and its gradients come from shifted planes of their operand.
#ifndef TRAINRT_KERNELS_CPU_AMX_TAPS_H_
#define TRAINRT_KERNELS_CPU_AMX_TAPS_H_

#include <array>
#include <cstdint>
#include <vector>

namespace trainrt {

/// y[n, f, i, j] = sum over c, a, b of w[f, c, a, b] x[n, c, i stride - pad + a dilation, …]; pairs
/// are (rows, columns).
struct AmxConvShape {
  using Pair = std::array<int64_t, 2>;
  int64_t batch, channels, filters;
  Pair x, y, kernel, strides, dilations, pads;  // pads at the beginning
  /// x is plain, and a row of a filter has up to kAmxDepth values from as many neighbouring
  /// columns: a pixel of the operand is then what a filter meets or, if that is more, what a row of
  /// it meets; the filter is a column of such pixels.
  bool plain_x = false;

  int64_t filter_size() const { return kernel[0] * kernel[1]; }
  int64_t weights() const { return filters * channels * filter_size(); }
  /// Rows of the filter that a pixel holds where x is plain: all or one.
  int64_t pixel_rows() const;
};
inline constexpr int64_t kAmxDepth = 32;  // inner dims of a tile

inline int64_t AmxConvShape::pixel_rows() const {
  return channels * filter_size() <= kAmxDepth ? kernel[0] : 1;
}

/// How a result's pixels come from the pixels of an operand. The operand lies in planes, one for
/// each phase of its step: row j of a plane is row j * in_step + phase - origin of the image, or
/// zeros. A group of results is a grid: its pixel (u, v) is pixel (u, v) * out_step + at of the
/// image.
struct AmxTaps {
  using Pair = AmxConvShape::Pair;
  struct Tap {
    int64_t filter;  // place in the filter
    int64_t plane;
    Pair shift;         // from the result's place in the grid to the operand's in the plane
    int64_t next = -1;  // place of the tap that meets the pixel to the right, if joined to this one
  };
  struct Group {
    Pair at, size;
    int64_t first, count;  // taps
  };
  Pair in, out;  // of the images
  Pair in_step = {1, 1}, out_step = {1, 1}, origin = {0, 0}, grid = {0, 0}, reach = {0, 0};
  int64_t pitch = 0;          // pixels of a plane's row
  std::vector<Pair> planes;   // their phases
  std::vector<Tap> taps;      // by group
  std::vector<Group> groups;  // one, or one for each phase of out_step

  /// Positions of `rows` rows of the grid, from the first to the last one that counts.
  int64_t positions(int64_t rows) const { return (rows - 1) * pitch + grid[1]; }
  /// From a position of the grid to what a tap meets in its plane.
  int64_t offset(const Tap& tap) const { return tap.shift[0] * pitch + tap.shift[1]; }
};

/// With what a filter or a row of it meets as a pixel where x is plain, and unchanged elsewhere.
/// The channels are [channel][row, if a pixel has all][column].
AmxConvShape windows_as_pixels(AmxConvShape s);
/// Weights [filter][channel][row][column] as [filter][channel][column][row], or back.
template <typename T>
void turn_weights(const AmxConvShape& s, bool back, const T* from, T* to) {
  const auto [rows, columns] = s.kernel;
  for (int64_t k = 0; k < s.filters * s.channels;
       ++k, from += rows * columns, to += rows * columns) {
    for (int64_t a = 0; a < rows; ++a) {
      for (int64_t b = 0; b < columns; ++b) {
        const int64_t plain = a * columns + b, turned = b * rows + a;
        to[back ? plain : turned] = from[back ? turned : plain];
      }
    }
  }
}

AmxTaps forward_taps(const AmxConvShape& s);
AmxTaps data_grad_taps(const AmxConvShape& s);
/// Joins taps that meet neighbouring pixels of a row, two by two: for operands of half a tile's
/// depth.
void join_neighbours(AmxTaps& t);

}  // namespace trainrt

#endif  // TRAINRT_KERNELS_CPU_AMX_TAPS_H_
