// Fourier transforms as products with constant matrices, windows, the mel filter bank.
#include <array>
#include <cmath>
#include <numbers>

#include "frontend/lower_util.h"

namespace trainrt {
namespace lowering {
namespace {

int64_t scalar(LowerContext& c, size_t input, const char* what) {
  const std::vector<int64_t> given = c.ints(input);
  if (given.size() != 1) c.invalid(std::string(what) + " is a scalar");
  return given[0];
}

void set_constant(LowerContext& c, const Tensor& values) {
  const bool typed = c.has_attr("output_datatype");
  c.set(c.b.constant(values.to(typed ? c.attr_dtype("output_datatype") : c.working)));
}

// w[i] = a - b cos(2 pi i / n) + d cos(4 pi i / n), n being one less for symmetric windows.
void set_window(LowerContext& c, double a, double b, double d) {
  const int64_t size = scalar(c, 0, "size");
  if (size < 0 || size > kMaxConstant) {
    c.invalid("a window of " + std::to_string(size) + " elements is out of reach");
  }
  const double n = static_cast<double>(c.attr_int("periodic", 1) != 0 ? size : size - 1);
  Tensor window(DType::kFloat64, {size});
  double i = 0;
  for (double& w : window.data<double>()) {
    const double angle = 2 * std::numbers::pi * i / n;
    w = d * std::cos(2 * angle) - b * std::cos(angle) + a;
    i += 1;
  }
  set_constant(c, window);
}

void lower_hann(LowerContext& c) { set_window(c, 0.5, 0.5, 0); }
void lower_hamming(LowerContext& c) { set_window(c, 25.0 / 46, 1 - 25.0 / 46, 0); }
void lower_blackman(LowerContext& c) { set_window(c, 0.42, 0.5, 0.08); }

// Triangles between neighbouring edges, which are evenly spaced on the mel scale.
void lower_mel_weight_matrix(LowerContext& c) {
  const int64_t bands = scalar(c, 0, "num_mel_bins"), length = scalar(c, 1, "dft_length"),
                rate = scalar(c, 2, "sample_rate");
  const double low = c.number(3), high = c.number(4);
  if (bands < 0 || length < 0 || rate <= 0 || !(low > -700) || !(high > -700) || high > 1e300) {
    c.invalid("no mel bands for these sizes and frequencies");
  }
  const int64_t bins = length / 2 + 1;
  if (bands > kMaxConstant || bins > kMaxConstant / std::max<int64_t>(bands, 1)) {
    c.refuse("memory", "a matrix of " + std::to_string(bins) + " bins and " +
                           std::to_string(bands) + " bands is out of reach");
  }
  const double scale = 2595 / std::log(10.0);
  const double first = scale * std::log1p(low / 700);
  const double step = (scale * std::log1p(high / 700) - first) / static_cast<double>(bands + 2);
  const auto edge = [&](int64_t i) {
    const double hertz = 700 * std::expm1((static_cast<double>(i) * step + first) / scale);
    const double bin =
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(bin >= 0 && bin < static_cast<double>(bins))) {
      c.invalid("the frequencies reach beyond the spectrum's " + std::to_string(bins) + " bins");
    }
    return static_cast<int64_t>(bin);
  };
  Tensor weights(DType::kFloat64, {bins, bands});
  const std::span<double> w = weights.data<double>();
  for (int64_t i = 0; i < bands; ++i) {
    const int64_t left = edge(i), centre = edge(i + 1), right = edge(i + 2);
    if (left == centre) w[at(centre * bands + i)] = 1;
    for (int64_t j = left; j <= centre && left != centre; ++j) {
      w[at(j * bands + i)] = static_cast<double>(j - left) / static_cast<double>(centre - left);
    }
    for (int64_t j = centre; j < right; ++j) {
      w[at(j * bands + i)] = static_cast<double>(right - j) / static_cast<double>(right - centre);
    }
  }
  set_constant(c, weights);
}

/// A transform of length n, of its first `rows` values; the others are zero.
struct Fourier {
  int64_t n = 0, rows = 0;
  bool inverse = false;
  bool complex_in = true, complex_out = true;
  int64_t outputs = 0;  // the first ones

  int64_t width() const { return complex_in ? 2 : 1; }
  int64_t out_width() const { return complex_out ? 2 : 1; }
};

/// cos and sin of 0, 1, …, n-1 nths of a turn; exact at the quarters.
std::vector<std::array<double, 2>> turns(int64_t n) {
  std::vector<std::array<double, 2>> table(at(n));
  for (int64_t r = 0; r < n; ++r) {
    const int64_t quarter = 4 * r / n;
    const double angle =
        std::numbers::pi / 2 * static_cast<double>(4 * r - quarter * n) / static_cast<double>(n);
    const double c = std::cos(angle), s = std::sin(angle);
    const std::array<double, 2> quarters[] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
    table[at(r)] = quarters[quarter];
  }
  return table;
}

/// Row (t, part), column (k, part) of the matrix by which Fourier is a product:
/// y_k = sum_t x_t e^(∓ 2 pi i k t / n), the inverse divided by n. A real result is that of a
/// spectrum whose upper half mirrors the lower one: its inner values count twice.
Tensor fourier_matrix(LowerContext& c, const Fourier& f) {
  const Shape shape = {f.rows * f.width(), f.outputs * f.out_width()};
  constexpr double kLargest = 1 << 30;  // bytes
  if (f.n > kMaxConstant || static_cast<double>(shape[0]) * static_cast<double>(shape[1]) *
                                    static_cast<double>(dtype_size(c.working)) >
                                kLargest) {
    c.refuse("memory", "a transform of length " + std::to_string(f.n) +
                           " is a product with a matrix " + to_string(shape) +
                           ", which takes more than 1 GiB");
  }
  const auto table = turns(f.n);
  Tensor matrix(c.working, shape);
  with_float_type(c.working, [&]<typename T>(T) {
    T* to = matrix.data<T>().data();
    for (int64_t t = 0; t < f.rows; ++t) {
      const bool inner = t > 0 && 2 * t != f.n;
      const double scale =
          (f.inverse ? 1.0 / static_cast<double>(f.n) : 1.0) * (!f.complex_out && inner ? 2 : 1);
      for (int64_t part = 0; part < f.width(); ++part) {
        for (int64_t k = 0, turn = 0; k < f.outputs; ++k, turn = (turn + t) % f.n) {
          const double cosine = scale * table[at(turn)][0];
          const double sine = (f.inverse ? scale : -scale) * table[at(turn)][1];
          *to++ = static_cast<T>(part == 0 ? cosine : -sine);
          if (f.complex_out) *to++ = static_cast<T>(part == 0 ? sine : cosine);
        }
      }
    }
  });
  return matrix;
}

/// x[…, rows, parts] to […, outputs, parts].
Var transformed(LowerContext& c, Var x, const Fourier& f) {
  Shape shape = x.shape();
  const int64_t batch = product(shape, 0, x.rank() - 2);
  const Var y = matmul(reshape(x, {batch, f.rows * f.width()}), c.b.constant(fourier_matrix(c, f)));
  shape[shape.size() - 2] = f.outputs;
  shape.back() = f.out_width();
  return reshape(y, shape);
}

int64_t dft_axis(LowerContext& c, int64_t rank) {
  const int64_t given =
      c.opset < 20 ? c.attr_int("axis", 1) : (c.has(2) ? scalar(c, 2, "axis") : int64_t{-2});
  const int64_t axis = c.axis(given, rank);
  if (axis == rank - 1) c.invalid("the last axis holds real and imaginary parts");
  return axis;
}

void check_parts(LowerContext& c, Var x) {
  if (!is_float(x.dtype()) || x.rank() < 2 || x.dim(x.rank() - 1) < 1 || x.dim(x.rank() - 1) > 2) {
    c.invalid("the last dim holds one real, or a real and an imaginary part, given " +
              to_string(x.shape()));
  }
}

void lower_dft(LowerContext& c) {
  const Var x = c.need(0);
  check_parts(c, x);
  const int64_t axis = dft_axis(c, x.rank()), dim = x.dim(axis);
  const bool onesided = c.attr_int("onesided", 0) != 0;
  Fourier f;
  f.inverse = c.attr_int("inverse", 0) != 0;
  f.complex_in = x.dim(x.rank() - 1) == 2;
  if (onesided && f.inverse != f.complex_in) {
    c.invalid("a one-sided transform has a real signal and a complex spectrum");
  }
  f.complex_out = !(onesided && f.inverse);
  f.n = c.has(1) ? scalar(c, 1, "dft_length") : (f.complex_out ? dim : 2 * (dim - 1));
  if (f.n < 1) c.invalid("a transform of length " + std::to_string(f.n));
  f.outputs = onesided && !f.inverse ? f.n / 2 + 1 : f.n;
  f.rows = std::min(dim, f.complex_out ? f.n : f.n / 2 + 1);

  std::vector<int64_t> there = identity_perm(x.rank()), back = there;
  there.erase(there.begin() + axis);
  there.insert(there.end() - 1, axis);
  for (size_t i = 0; i < there.size(); ++i) back[at(there[i])] = static_cast<int64_t>(i);
  const Var rows = f.rows == dim ? x : slice(x, axis, 0, f.rows);
  c.set(transpose(transformed(c, transpose(rows, there), f), back));
}

// Frame i holds the signal from i step on.
Var frames_of(LowerContext& c, Var signal, int64_t length, int64_t step) {
  const int64_t count = (signal.dim(1) - length) / step + 1;
  if (count > kMaxConstant / length) {
    c.refuse("memory", std::to_string(count) + " frames of " + std::to_string(length) +
                           " values are out of reach");
  }
  const Var start = iota(c, count) * static_cast<double>(step);
  return gather(signal, unsqueeze(start, {1}) + iota(c, length), 1);
}

void lower_stft(LowerContext& c) {
  Var signal = c.need(0);
  if (signal.rank() == 2) signal = unsqueeze(signal, {2});
  if (signal.rank() != 3) c.invalid("the signal is [batch,length,parts]");
  check_parts(c, signal);
  const Var window = c.in(2);
  if (window && window.rank() != 1) c.invalid("the window has rank 1");
  const int64_t step = scalar(c, 1, "frame_step");
  Fourier f;
  f.n = c.has(3) ? scalar(c, 3, "frame_length") : (window ? window : signal).dim(window ? 0 : 1);
  if (window && window.dim(0) != f.n) {
    c.invalid("a window of " + std::to_string(window.dim(0)) + " values for frames of " +
              std::to_string(f.n));
  }
  if (step < 1 || f.n < 1 || f.n > signal.dim(1)) {
    c.invalid("frames of " + std::to_string(f.n) + " values every " + std::to_string(step) +
              " of a signal of " + std::to_string(signal.dim(1)));
  }
  f.rows = f.n;
  f.complex_in = signal.dim(2) == 2;
  f.outputs = c.attr_int("onesided", 1) != 0 ? f.n / 2 + 1 : f.n;
  Var frames = frames_of(c, signal, f.n, step);
  if (window) frames = frames * unsqueeze(window, {1});
  c.set(transformed(c, frames, f));
}

using enum GradInputs;

constexpr LoweringRow kRows[] = {
    {"", "BlackmanWindow", 17, lower_blackman, kNone},
    {"", "DFT", 17, lower_dft, kFirst, "transforms whose matrix exceeds 1 GiB"},
    {"", "HammingWindow", 17, lower_hamming, kNone},
    {"", "HannWindow", 17, lower_hann, kNone},
    {"", "MelWeightMatrix", 17, lower_mel_weight_matrix, kNone},
    {"", "STFT", 17, lower_stft, GradInputs::kAll, "transforms whose matrix exceeds 1 GiB"},
};

}  // namespace
}  // namespace lowering

std::span<const LoweringRow> signal_lowerings() {
  static const std::vector<LoweringRow> rows = lowering::joined(
      {lowering::kRows, lowering::bit_cast_lowerings(), lowering::tf_idf_lowerings()});
  return rows;
}

}  // namespace trainrt
