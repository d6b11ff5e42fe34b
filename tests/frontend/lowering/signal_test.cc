#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>

#include "tests/frontend/lowering/one_node.h"

namespace trainrt {
namespace {

OneNode dft(int64_t opset = 20) { return OneNode("DFT", opset); }
OneNode stft() { return OneNode("STFT", 17); }
Tensor index(int64_t i) { return ints({i}, {}); }

/// Values without a pattern.
Tensor some(Shape shape) {
  Tensor t(DType::kFloat64, std::move(shape));
  double i = 1;
  for (double& v : t.data<double>()) v = std::sin(i * i), i += 1;
  return t;
}

double dot(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double sum = 0;
  for (size_t i = 0; i < a.data<double>().size(); ++i) {
    sum += a.data<double>()[i] * b.data<double>()[i];
  }
  return sum;
}

/// The gradient in input i by central differences; the node is made by `make(x)`.
void check_slope(const Tensor& x, int i, const std::function<OneNode(const Tensor&)>& make) {
  const Tensor dy = some(make(x).y().shape());
  const Tensor dx = make(x).gradients({{0, dy}}).at(i);
  for (size_t j = 0; j < x.data<double>().size(); ++j) {
    Tensor up = x.clone(), down = x.clone();
    up.data<double>()[j] += 1e-4;
    down.data<double>()[j] -= 1e-4;
    const double slope = (dot(dy, make(up).y()) - dot(dy, make(down).y())) / 2e-4;
    INFO("element " << j << ": " << dx.data<double>()[j] << ", by differences " << slope);
    CHECK(std::abs(dx.data<double>()[j] - slope) < 1e-8);
  }
}

// Values of NumPy's fft, rfft, ifft and irfft.
const Tensor kReal = reals({1, 0, 2, 4}, {1, 4, 1});
const Tensor kSpectrum = reals({4, 0, 1, -2, 0.5, 3, 2, 1}, {1, 4, 2});

TEST_CASE("DFT of a real signal, whole and one-sided") {
  CHECK_SAME(dft(17).input(kReal).y(), reals({7, 0, -1, 4, -1, 0, -1, -4}, {1, 4, 2}));
  CHECK_SAME(dft().input(kReal).y(), reals({7, 0, -1, 4, -1, 0, -1, -4}, {1, 4, 2}));
  CHECK_SAME(dft().attr("onesided", 1).input(kReal).y(), reals({7, 0, -1, 4, -1, 0}, {1, 3, 2}));
  CHECK_SAME(
      dft().attr("onesided", 1).input(kReal).constant(index(5)).y(),
      reals({7, 0, -3.854101966249684, 1.175570504584946, 2.854101966249684, -1.902113032590307},
            {1, 3, 2}));
}

TEST_CASE("the inverse DFT, whole and to a real signal") {
  CHECK_SAME(dft().attr("inverse", 1).input(kSpectrum).y(),
             reals({1.875, 0.5, 1.625, -1, 0.375, 1, 0.125, -0.5}, {1, 4, 2}));
  const auto real = [] { return dft().attr("inverse", 1).attr("onesided", 1).input(kSpectrum); };
  CHECK_SAME(real().y(), reals({1.5, 0.127991532071854, 2.193375672974064, 0.166666666666667,
                                -0.693375672974064, 0.705341801261479},
                               {1, 6, 1}));
  CHECK_SAME(real().constant(index(5)).y(), reals({1.4, 0.817306309160145, 2.149692622513173,
                                                   -1.073299420263152, 0.706300488589834},
                                                  {1, 5, 1}));
}

TEST_CASE("DFT along any axis, by attribute and by input") {
  const Tensor x = some({2, 3, 4, 2});
  const Tensor last = dft().input(x).y();
  CHECK_SAME(dft().input(x).absent().constant(index(2)).y(), last);
  CHECK_SAME(dft(17).attr("axis", 2).input(x).y(), last);
  CHECK_SAME(dft(17).attr("axis", -2).input(x).y(), last);
  const Tensor first = dft(17).attr("axis", 0).input(x).y();
  CHECK_SAME(dft().input(x).constant(ints({2})).constant(index(-4)).y(), first);
  for (size_t i = 0; i < 24; ++i) {
    CHECK(std::abs(first.data<double>()[i] - x.data<double>()[i] - x.data<double>()[24 + i]) <
          1e-15);
  }
}

TEST_CASE("the two inverses undo the DFT for even and odd lengths") {
  for (int64_t n : {1, 2, 3, 7, 8, 30}) {
    INFO(n);
    const Tensor x = some({2, n, 2}), real = some({n, 1});
    CHECK_SAME(dft().attr("inverse", 1).input(dft().input(x).y()).y(), x);
    CHECK_SAME(dft()
                   .attr("inverse", 1)
                   .attr("onesided", 1)
                   .input(dft().attr("onesided", 1).input(real).y())
                   .constant(index(n))
                   .y(),
               real);
  }
}

TEST_CASE("DFT pads with zeros and cuts") {
  const Tensor x = some({1, 4, 2});
  Tensor longer(DType::kFloat64, {1, 6, 2});
  std::memcpy(longer.raw(), x.raw(), x.bytes());
  CHECK_SAME(dft().input(x).constant(index(6)).y(), dft().input(longer).y());
  CHECK_SAME(dft().input(longer).constant(index(4)).y(), dft().input(x).y());
  CHECK_SAME(dft().input(Tensor(DType::kFloat64, {2, 0, 1})).constant(index(2)).y(),
             Tensor(DType::kFloat64, {2, 2, 2}));
  CHECK(dft().input(Tensor(DType::kFloat64, {0, 3, 1})).y().shape() == Shape{0, 3, 2});
}

TEST_CASE("gradients of DFT in all forms") {
  for (int64_t length : {3, 4, 6}) {
    for (int form = 0; form < 4; ++form) {
      const bool inverse = form % 2 == 1, onesided = form / 2 == 1;
      INFO("length " << length << (inverse ? ", inverse" : "") << (onesided ? ", one-sided" : ""));
      check_slope(some({2, 4, onesided && !inverse ? 1 : 2}), 0, [&](const Tensor& x) {
        return dft()
            .attr("inverse", inverse ? 1 : 0)
            .attr("onesided", onesided ? 1 : 0)
            .input(x)
            .constant(index(length));
      });
    }
  }
}

TEST_CASE("DFT refuses what does not fit") {
  CHECK(dft().input(kReal).constant(index(0)).refusal() == "invalid");
  CHECK(dft().input(kReal).absent().constant(index(2)).refusal() == "invalid");
  CHECK(dft().input(kReal).absent().constant(index(-1)).refusal() == "invalid");
  CHECK(dft().input(kReal).input(index(4)).refusal() == "dynamic");
  CHECK(dft().input(some({4})).refusal() == "invalid");
  CHECK(dft().input(some({2, 4, 3})).refusal() == "invalid");
  CHECK(dft().input(Tensor(DType::kFloat64, {2, 0, 1})).refusal() == "invalid");
  CHECK(dft().attr("onesided", 1).input(kSpectrum).refusal() == "invalid");
  CHECK(dft().attr("onesided", 1).attr("inverse", 1).input(kReal).refusal() == "invalid");
  CHECK(dft().input(kReal).constant(index(int64_t{1} << 40)).refusal() == "memory");
  CHECK(dft().input(Tensor(DType::kFloat64, {20000, 1})).refusal() == "memory");
}

const Tensor kSignal = reals({1, 2, 3, 4, 5, 6, 7}, {1, 7, 1});
const Tensor kWindow = reals({1, 2, 1, 0.5});

TEST_CASE("STFT windows each frame") {
  const Tensor y = reals({10, 0, -2, -2, -2, 0, 19, 0, -2, -5, -3, 0}, {1, 2, 3, 2});
  CHECK_SAME(stft().input(kSignal).constant(index(2)).input(kWindow).y(), y);
  CHECK_SAME(stft().input(kSignal.reshape({1, 7})).constant(index(2)).constant(kWindow).y(), y);
  CHECK_SAME(stft().input(kSignal).constant(index(2)).constant(kWindow).constant(ints({4})).y(), y);
  CHECK_SAME(stft().attr("onesided", 0).input(kSignal).constant(index(2)).constant(kWindow).y(),
             reals({10, 0, -2, -2, -2, 0, -2, 2, 19, 0, -2, -5, -3, 0, -2, 5}, {1, 2, 4, 2}));
}

TEST_CASE("STFT without a window, of one frame, of a complex signal") {
  const Tensor x = some({2, 6, 2});
  CHECK_SAME(stft().attr("onesided", 0).input(x).constant(index(1)).y().reshape({2, 6, 2}),
             dft().input(x).y());
  const Tensor y =
      stft().attr("onesided", 0).input(x).constant(index(3)).absent().constant(index(3)).y();
  CHECK_SAME(y.reshape({4, 3, 2}), dft().input(x.reshape({4, 3, 2})).y());
}

TEST_CASE("gradients of STFT in signal and window") {
  for (int64_t parts : {1, 2}) {
    const Tensor window = some({3});
    check_slope(some({2, 8, parts}), 0, [&](const Tensor& x) {
      return stft().input(x).constant(index(2)).constant(window);
    });
    const Tensor signal = some({2, 8, parts});
    check_slope(window, 2, [&](const Tensor& w) {
      return stft().attr("onesided", 0).input(signal).constant(index(1)).input(w);
    });
  }
}

TEST_CASE("STFT refuses what does not fit") {
  const auto refusal = [](int64_t step, const Tensor& window, int64_t length) {
    return stft()
        .input(kSignal)
        .constant(index(step))
        .constant(window)
        .constant(index(length))
        .refusal();
  };
  CHECK(refusal(0, kWindow, 4) == "invalid");
  CHECK(refusal(-1, kWindow, 4) == "invalid");
  CHECK(refusal(1, kWindow, 5) == "invalid");
  CHECK(refusal(1, kWindow.reshape({2, 2}), 4) == "invalid");
  CHECK(refusal(1, Tensor(DType::kFloat64, {8}), 8) == "invalid");
  CHECK(refusal(1, Tensor(DType::kFloat64, {0}), 0) == "invalid");
  CHECK(stft().input(some({7})).constant(index(1)).refusal() == "invalid");
}

TEST_CASE("windows, periodic and symmetric") {
  const auto window = [](const char* op, int64_t size) {
    return OneNode(op, 17).constant(index(size));
  };
  CHECK_SAME(window("HannWindow", 4).y(), reals({0, 0.5, 1, 0.5}));
  CHECK_SAME(window("HannWindow", 4).attr("periodic", 0).y(), reals({0, 0.75, 0.75, 0}));
  CHECK_SAME(window("HammingWindow", 4).y(), reals({4.0 / 46, 25.0 / 46, 1, 25.0 / 46}));
  CHECK_SAME(window("HammingWindow", 5).attr("periodic", 0).y(),
             reals({4.0 / 46, 25.0 / 46, 1, 25.0 / 46, 4.0 / 46}));
  CHECK_SAME(window("BlackmanWindow", 4).y(), reals({0, 0.34, 1, 0.34}));
  CHECK_SAME(window("BlackmanWindow", 4).attr("periodic", 0).y(), reals({0, 0.63, 0.63, 0}));
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    CHECK(window(op, 0).y().shape() == Shape{0});
    CHECK_SAME(window(op, 4).attr("output_datatype", 7).y(), ints({0, 0, 1, 0}));
    CHECK(window(op, 3).attr("output_datatype", 8).refusal() == "no_lowering");
    CHECK(window(op, -1).refusal() == "invalid");
    CHECK(window(op, int64_t{1} << 40).refusal() == "invalid");
    CHECK(OneNode(op, 17).constant(ints({1, 2})).refusal() == "invalid");
  }
}

OneNode mel(int64_t bands, int64_t length, int64_t rate, double low, double high) {
  return OneNode("MelWeightMatrix", 17)
      .constant(index(bands))
      .constant(index(length))
      .constant(index(rate))
      .constant(real(low))
      .constant(real(high));
}

TEST_CASE("MelWeightMatrix") {
  // Values of onnx.reference.
  CHECK_SAME(mel(3, 16, 8000, 100, 4000).y(), reals({1,   0, 0, 0, 1, 0, 0, 0.5, 0.5, 0, 0, 1, 0, 0,
                                                     0.5, 0, 0, 0, 0, 0, 0, 0,   0,   0, 0, 0, 0},
                                                    {9, 3}));
  CHECK_SAME(mel(1, 16, 8000, 100, 4000).attr("output_datatype", 6).y(),
             ints({0, 1, 0, 0, 0, 0, 0, 0, 0}, {9, 1}).to(DType::kInt32));
  CHECK(mel(0, 16, 8000, 100, 4000).y().shape() == Shape{9, 0});
  CHECK(mel(3, 16, 8000, 100, 9000).refusal() == "invalid");
  CHECK(mel(3, 16, 8000, -300, 4000).refusal() == "invalid");
  CHECK(mel(3, 16, 0, 100, 4000).refusal() == "invalid");
  CHECK(mel(3, 16, 8000, 100, std::nan("")).refusal() == "invalid");
  CHECK(mel(1 << 30, 1 << 30, 8000, 100, 4000).refusal() == "memory");
}

OneNode bit_cast(const Tensor& x, int to) { return OneNode("BitCast", 26).attr("to", to).input(x); }
constexpr int kFloat = 1, kUint8 = 2, kInt16 = 5, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9,
              kHalf = 10, kDouble = 11, kUint32 = 12, kUint64 = 13, kBfloat = 16;

TEST_CASE("BitCast among integers of one size") {
  CHECK_SAME(bit_cast(ints({-1, 5}), kUint64).y().to(DType::kInt64), ints({-1, 5}));
  CHECK(bit_cast(ints({-1}), kUint64).y().dtype() == DType::kUInt64);
  CHECK_SAME(bit_cast(ints({-2}).to(DType::kInt8), kUint8).y(), ints({254}).to(DType::kUInt8));
  CHECK_SAME(bit_cast(bools({true, false}, {2}), kUint8).y(), ints({1, 0}).to(DType::kUInt8));
  CHECK_SAME(bit_cast(ints({1, 0}).to(DType::kUInt8), kBool).y(), bools({true, false}, {2}));
  CHECK(bit_cast(ints({1}), kInt32).refusal() == "invalid");
  CHECK(bit_cast(ints({1}), kFloat).refusal() == "invalid");
  CHECK(bit_cast(ints({1}), kString).refusal() == "no_lowering");
}

TEST_CASE("BitCast of floats takes the stored type from the other side's width") {
  CHECK_SAME(bit_cast(reals({1.5, -2}), kInt32).y(),
             ints({0x3fc00000, -0x40000000}).to(DType::kInt32));
  CHECK_SAME(bit_cast(reals({-2}), kUint32).y(), ints({0xc0000000}).to(DType::kUInt32));
  CHECK_SAME(bit_cast(reals({-2}), kInt64).y(), ints({-0x4000000000000000}));
  CHECK_SAME(bit_cast(ints({0x3fc00000}).to(DType::kInt32), kFloat).y(), reals({1.5}));
  CHECK_SAME(bit_cast(ints({-0x4000000000000000}), kDouble).y(), reals({-2}));
  CHECK_SAME(bit_cast(reals({0.1}), kFloat).y(), reals({0.1}));
  CHECK(bit_cast(reals({1}), kInt16).refusal() == "no_lowering");
  CHECK(bit_cast(reals({1}), kHalf).refusal() == "no_lowering");
  CHECK(bit_cast(reals({1}), kUint8).refusal() == "invalid");

  const Tensor single = reals({1.5}).to(DType::kFloat32);
  OneNode narrow = bit_cast(single, kInt32), wide = bit_cast(single, kInt64);
  narrow.options.working = wide.options.working = DType::kFloat32;
  CHECK_SAME(narrow.y(), ints({0x3fc00000}).to(DType::kInt32));
  CHECK(wide.refusal() == "no_lowering");
}

TEST_CASE("BitCast to half precision") {
  const Tensor bits = ints({0x3c00, 0xc000, 0x0001, 0x7c00, 0x7e00}).to(DType::kUInt16);
  CHECK_SAME(
      bit_cast(bits, kHalf).y(),
      reals({1, -2, std::ldexp(1.0, -24), std::numeric_limits<double>::infinity(), std::nan("")}));
  CHECK_SAME(bit_cast(bits.to(DType::kInt16), kHalf).y(), bit_cast(bits, kHalf).y());
  CHECK_SAME(bit_cast(ints({0x3f80, 0xc040}).to(DType::kUInt16), kBfloat).y(), reals({1, -3}));
}

TEST_CASE("BitCast has no gradient") {
  OneNode n("BitCast", 26);
  n.attr("to", kInt64).input(reals({1}));
  CHECK_FALSE(n.gradients({{0, ints({1})}}).at(0).defined());
}

OneNode tf_idf(const char* mode, int skips, int shortest = 1, int longest = 2) {
  return OneNode("TfIdfVectorizer", 9)
      .attr("mode", mode)
      .attr("max_skip_count", skips)
      .attr("min_gram_length", shortest)
      .attr("max_gram_length", longest)
      .attr("ngram_counts", std::vector<int64_t>{0, 4})
      .attr("ngram_indexes", std::vector<int64_t>{6, 0, 1, 2, 3, 4, 5})
      .attr("pool_int64s", std::vector<int64_t>{2, 3, 5, 4, 5, 6, 7, 8, 6, 7});
}
const std::vector<double> kWeights = {1, 2, 3, 4, 5, 6, 7};
const Tensor kTokens = ints({1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8}, {2, 6}).to(DType::kInt32);
const Tensor kSecond = ints({8, 6, 7, 5, 6, 8});

// Values of ONNX Runtime.
TEST_CASE("TfIdfVectorizer counts n-grams with and without skips") {
  CHECK_SAME(tf_idf("TF", 0).input(kTokens).y(),
             reals({3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0}, {2, 7}));
  CHECK_SAME(tf_idf("TF", 2).input(kTokens).y(),
             reals({3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 0}, {2, 7}));
  CHECK_SAME(tf_idf("TF", 1, 2).input(kSecond).y(), reals({0, 0, 0, 1, 0, 1, 0}));
  CHECK_SAME(tf_idf("TF", 1, 1, 1).input(kSecond).y(), reals({0, 1, 0, 0, 0, 0, 0}));
}

TEST_CASE("TfIdfVectorizer weighs each n-gram of the pool") {
  CHECK_SAME(tf_idf("TFIDF", 2).attr("weights", kWeights).input(kTokens).y(),
             reals({6, 0, 0, 0, 0, 0, 0, 0, 3, 0, 5, 6, 7, 0}, {2, 7}));
  CHECK_SAME(tf_idf("IDF", 2).attr("weights", kWeights).input(kTokens).y(),
             reals({2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 5, 6, 7, 0}, {2, 7}));
  CHECK_SAME(tf_idf("IDF", 0).input(kTokens).y(),
             reals({1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0}, {2, 7}));
  CHECK_SAME(tf_idf("TF", 0).attr("weights", kWeights).input(kSecond).y(),
             reals({0, 1, 0, 1, 0, 1, 0}));
}

TEST_CASE("TfIdfVectorizer adds up n-grams of one coordinate") {
  const auto shared = [](const char* mode) {
    return tf_idf(mode, 1)
        .attr("ngram_indexes", std::vector<int64_t>{0, 1, 2, 2, 3, 3, 3})
        .attr("pool_int64s", std::vector<int64_t>{1, 3, 7, 8, 5, 6, 7, 8, 6, 7})
        .input(kTokens);
  };
  CHECK_SAME(shared("TF").y(), reals({2, 3, 1, 0, 0, 0, 3, 2}, {2, 4}));
  CHECK_SAME(shared("IDF").y(), reals({1, 1, 1, 0, 0, 0, 1, 1}, {2, 4}));
  CHECK_SAME(shared("TFIDF").attr("weights", kWeights).y(),
             reals({2, 6, 3, 0, 0, 0, 11, 12}, {2, 4}));
  CHECK(shared("IDF").attr("weights", kWeights).refusal() == "no_lowering");
}

TEST_CASE("TfIdfVectorizer of nothing") {
  CHECK_SAME(tf_idf("TF", 1).input(ints({})).y(), Tensor(DType::kFloat64, {7}));
  CHECK_SAME(tf_idf("TF", 1).input(ints({}, {2, 0})).y(), Tensor(DType::kFloat64, {2, 7}));
  CHECK_SAME(tf_idf("TF", 9).input(ints({2})).y(), reals({0, 0, 0, 0, 0, 0, 1}));
  CHECK_SAME(tf_idf("TF", 0)
                 .attr("max_skip_count", AttrValue(std::numeric_limits<int64_t>::max()))
                 .input(kSecond)
                 .y(),
             reals({0, 1, 0, 1, 1, 1, 0}));
}

TEST_CASE("TfIdfVectorizer refuses strings and malformed pools") {
  CHECK(tf_idf("TF", 0).attr("pool_strings", "x").input(kTokens).refusal() == "no_lowering");
  CHECK(tf_idf("IF", 0).input(kTokens).refusal() == "invalid");
  CHECK(tf_idf("TF", -1).input(kTokens).refusal() == "invalid");
  CHECK(tf_idf("TF", 0, 2, 1).input(kTokens).refusal() == "invalid");
  CHECK(tf_idf("TF", 0).input(ints({1}, {1, 1, 1})).refusal() == "invalid");
  CHECK(tf_idf("TF", 0).input(ints({1}, {})).refusal() == "invalid");
  const std::pair<const char*, std::vector<int64_t>> wrong[] = {
      {"ngram_counts", {4, 0}},
      {"ngram_counts", {0, 99}},
      {"ngram_counts", {-1, 4}},
      {"ngram_counts", {0, 3}},
      {"ngram_indexes", {0, 1}},
      {"ngram_indexes", {}},
      {"ngram_indexes", {6, 0, 1, 2, 3, 4, -5}},
      {"ngram_indexes", {6, 0, 1, 2, 3, 4, int64_t{1} << 60}},
      {"pool_int64s", {2, 3, 5, 4, 5, 6, 5, 6, 6, 7}},
      {"pool_int64s", {}}};
  for (const auto& [name, value] : wrong) {
    INFO(name);
    CHECK(tf_idf("TF", 0).attr(name, value).input(kTokens).refusal() == "invalid");
  }
}

}  // namespace
}  // namespace trainrt
