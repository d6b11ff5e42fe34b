// What cuBLASLt and cuDNN are asked for, by plain loops in double.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/cuda/emulator/device.h"
#include "trainrt/error.h"

namespace trainrt::testing {
namespace {

double load(const void* data, DType type, int64_t i) {
  switch (type) {
    case DType::kFloat32:
      return static_cast<const float*>(data)[i];
    case DType::kFloat64:
      return static_cast<const double*>(data)[i];
    case DType::kBFloat16: {
      const uint32_t bits = uint32_t{static_cast<const uint16_t*>(data)[i]} << 16;
      return __builtin_bit_cast(float, bits);
    }
    default:
      throw Error(ErrorCode::kInternal, "libraries take floats");
  }
}

void store(void* data, DType type, int64_t i, double value) {
  switch (type) {
    case DType::kFloat32:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case DType::kFloat64:
      static_cast<double*>(data)[i] = value;
      return;
    case DType::kBFloat16: {
      const auto bits = __builtin_bit_cast(uint32_t, static_cast<float>(value));
      if (std::isnan(value)) {
        static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>((bits >> 16) | 0x40u);
        return;
      }
      static_cast<uint16_t*>(data)[i] =
          static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
      return;
    }
    default:
      throw Error(ErrorCode::kInternal, "libraries give floats");
  }
}

template <typename F>
class Loops final : public gpu::LibraryCall {
 public:
  Loops(F f, size_t inputs, size_t outputs)
      : f_(std::move(f)), inputs_(inputs), outputs_(outputs) {}
  size_t workspace_bytes() const override { return 0; }
  void run(gpu::Stream& stream, const void* const* in, void* const* out, void*) const override {
    enqueue(stream,
            [f = f_, ins = std::vector<const void*>(in, in + inputs_),
             outs = std::vector<void*>(out, out + outputs_)] { f(ins.data(), outs.data()); });
  }

 private:
  F f_;
  size_t inputs_, outputs_;
};

template <typename F>
std::unique_ptr<gpu::LibraryCall> loops(size_t inputs, size_t outputs, F f) {
  return std::make_unique<Loops<F>>(std::move(f), inputs, outputs);
}

/// Leaves NaN as it is.
double relu(double x) { return x > 0 || std::isnan(x) ? x : 0; }

/// Of the biases of both calls, where sums are float32 if the result is narrower.
DType bias_type(DType result) {
  return result == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

/// Types as kernels/gpu.h has them: all the same, or of bfloat16 operands a float32 result.
bool known_types(DType a, DType b, DType result, std::string* why) {
  const bool known =
      a == b && (a == result || (a == DType::kBFloat16 && result == DType::kFloat32));
  if (!known && why != nullptr) *why = "types are mixed";
  return known;
}

}  // namespace

std::unique_ptr<gpu::LibraryCall> emulated_matmul(const gpu::MatMulCall& call, std::string* why) {
  if (!known_types(call.a, call.b, call.c, why)) return nullptr;
  // cuBLASLt's limits, or near enough: callers must get by without.
  if (call.epilogue != gpu::Epilogue::kNone &&
      (call.c == DType::kFloat64 ||
       (call.c == DType::kBFloat16 && call.epilogue != gpu::Epilogue::kRelu))) {
    if (why != nullptr) *why = "no such epilogue";
    return nullptr;
  }
  const bool bias = call.epilogue == gpu::Epilogue::kBias ||
                    call.epilogue == gpu::Epilogue::kBiasRelu ||
                    call.epilogue == gpu::Epilogue::kBiasGelu;
  return loops(bias ? 3 : 2, 1, [c = call, bias](const void* const* in, void* const* out) {
    for (const void* address : {in[0], in[1], static_cast<const void*>(out[0])}) {
      if (reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(c.alignment) != 0) {
        throw Error(ErrorCode::kInternal, "a product's operands are not aligned as they should be");
      }
    }
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < c.k; ++k) {
            sum += load(in[0], c.a, b * c.stride_a + (c.trans_a ? k * c.lda + i : i * c.lda + k)) *
                   load(in[1], c.b, b * c.stride_b + (c.trans_b ? j * c.ldb + k : k * c.ldb + j));
          }
          if (bias) sum += load(in[2], bias_type(c.c), j);
          if (c.epilogue == gpu::Epilogue::kRelu || c.epilogue == gpu::Epilogue::kBiasRelu) {
            sum = relu(sum);
          }
          if (c.epilogue == gpu::Epilogue::kBiasGelu) {
            sum =
                sum / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
          }
          store(out[0], c.c, b * c.stride_c + i * c.ldc + j, sum);
        }
      }
    }
  });
}

namespace {

/// A convolution's tensor [n, c, spatial…].
struct Image {
  Shape shape;
  bool channels_last;
  int64_t pixels = 1;

  Image(const Shape& s, bool last) : shape(s), channels_last(last) {
    for (size_t d = 2; d < s.size(); ++d) pixels *= s[d];
  }
  int64_t at(int64_t n, int64_t c, int64_t pixel) const {
    return channels_last ? (n * pixels + pixel) * shape[1] + c
                         : (n * shape[1] + c) * pixels + pixel;
  }
};

/// Calls f(x, w, y) for all elements that a convolution joins.
template <typename F>
void for_each_product(const gpu::ConvCall& call, F f) {
  const Image x(call.x, call.channels_last), w(call.w, call.channels_last),
      y(call.y, call.channels_last);
  const int64_t channels = call.w[1], filters = call.w[0] / call.group;
  for (int64_t o = 0; o < y.pixels; ++o) {
    for (int64_t t = 0; t < w.pixels; ++t) {
      int64_t cell = 0, stride = 1, output = o, tap = t;
      bool inside = true;
      for (size_t d = call.strides.size(); d-- > 0;) {
        const int64_t i = output % call.y[d + 2] * call.strides[d] +
                          tap % call.w[d + 2] * call.dilations[d] - call.pads_begin[d];
        inside = inside && i >= 0 && i < call.x[d + 2];
        cell += i * stride;
        stride *= call.x[d + 2];
        output /= call.y[d + 2];
        tap /= call.w[d + 2];
      }
      if (!inside) continue;
      for (int64_t n = 0; n < call.x[0]; ++n) {
        for (int64_t m = 0; m < call.w[0]; ++m) {
          for (int64_t c = 0; c < channels; ++c) {
            f(x.at(n, m / filters * channels + c, cell), w.at(m, c, t), y.at(n, m, o));
          }
        }
      }
    }
  }
}

}  // namespace

std::unique_ptr<gpu::LibraryCall> emulated_convolution(const gpu::ConvCall& call,
                                                       std::string* why) {
  const bool forward = call.pass == gpu::ConvPass::kForward,
             data = call.pass == gpu::ConvPass::kData;
  const DType first = data ? call.y_type : call.x_type,
              second = call.pass == gpu::ConvPass::kWeight ? call.y_type : call.w_type,
              result = forward ? call.y_type
                       : data  ? call.x_type
                               : call.w_type;
  if (!known_types(first, second, result, why)) return nullptr;
  if (result == DType::kFloat64 || call.x.size() < 4 || (!forward && (call.bias || call.relu))) {
    if (why != nullptr) *why = "not a convolution of float32 or bfloat16 along two or three dims";
    return nullptr;
  }
  if (result == DType::kBFloat16 && call.bias) {  // callers must get by without
    if (why != nullptr) *why = "adds no bias to bfloat16";
    return nullptr;
  }
  return loops(call.bias ? 3 : 2, 1, [=, c = call](const void* const* in, void* const* out) {
    const Shape& shape = forward ? c.y : data ? c.x : c.w;
    std::vector<double> sums(static_cast<size_t>(element_count(shape)));
    for_each_product(c, [&](int64_t x, int64_t w, int64_t y) {
      const int64_t a = data ? y : x, b = forward || data ? w : y, to = forward ? y : data ? x : w;
      sums[static_cast<size_t>(to)] += load(in[0], first, a) * load(in[1], second, b);
    });
    const int64_t pixels = Image(shape, false).pixels;
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t channel = c.channels_last ? at % shape[1] : at / pixels % shape[1];
      if (c.bias) sums[i] += load(in[2], DType::kFloat32, channel);
      store(out[0], result, at, c.relu ? relu(sums[i]) : sums[i]);
    }
  });
}

std::unique_ptr<gpu::LibraryCall> emulated_attention(const gpu::AttentionCall& call, std::string*) {
  return loops(
      call.backward ? 6 : 3, call.backward ? 3 : 2,
      [c = call](const void* const* in, void* const* out) {
        using Rows = gpu::AttentionCall::Operand;
        const size_t first = c.backward ? 1 : 0;
        const int64_t group = c.heads / c.kv_heads;
        const auto at = [](const Rows& r, int64_t b, int64_t h, int64_t t) {
          return b * r.batch + h * r.head + t * r.token;
        };
        std::vector<double> dk(static_cast<size_t>(c.batch * c.kv_heads * c.keys * c.size)),
            dv(static_cast<size_t>(c.batch * c.kv_heads * c.keys * c.value_size));
        for (int64_t b = 0; b < c.batch; ++b) {
          for (int64_t h = 0; h < c.heads; ++h) {
            for (int64_t i = 0; i < c.queries; ++i) {
              const int64_t seen = c.causal ? std::min(c.keys, i + c.keys - c.queries + 1) : c.keys;
              const auto dot = [&](size_t x, int64_t x_at, size_t y, int64_t y_at, int64_t n) {
                double sum = 0;
                for (int64_t e = 0; e < n; ++e) {
                  sum += load(in[x], c.type, x_at + e) * load(in[y], c.type, y_at + e);
                }
                return sum;
              };
              const int64_t row = (b * c.heads + h) * c.queries + i, kv = h / group;
              std::vector<double> weights(static_cast<size_t>(seen));
              double peak = -INFINITY, sum = 0;
              for (int64_t j = 0; j < seen; ++j) {
                double& score = weights[static_cast<size_t>(j)];
                score =
                    c.scale * dot(first, at(c.q, b, h, i), first + 1, at(c.k, b, kv, j), c.size);
                peak = std::max(peak, score);
              }
              for (const double score : weights) sum += std::exp(score - peak);
              const double log_sum =
                  c.backward ? load(in[5], DType::kFloat32, row) : peak + std::log(sum);
              for (double& score : weights) score = std::exp(score - log_sum);
              if (!c.backward) {
                store(out[1], DType::kFloat32, row, log_sum);
                for (int64_t e = 0; e < c.value_size; ++e) {
                  double value = 0;
                  for (int64_t j = 0; j < seen; ++j) {
                    value += weights[static_cast<size_t>(j)] *
                             load(in[2], c.type, at(c.v, b, kv, j) + e);
                  }
                  store(out[0], c.type, at(c.y, b, h, i) + e, value);
                }
                continue;
              }
              const double inner = dot(0, at(c.dy, b, h, i), 4, at(c.y, b, h, i), c.value_size);
              std::vector<double> dq(static_cast<size_t>(c.size));
              for (int64_t j = 0; j < seen; ++j) {
                const double weight = weights[static_cast<size_t>(j)];
                const double into = dot(0, at(c.dy, b, h, i), 3, at(c.v, b, kv, j), c.value_size);
                const double ds = c.scale * weight * (into - inner);
                const int64_t key = (b * c.kv_heads + kv) * c.keys + j;
                for (int64_t e = 0; e < c.size; ++e) {
                  dq[static_cast<size_t>(e)] += ds * load(in[2], c.type, at(c.k, b, kv, j) + e);
                  dk[static_cast<size_t>(key * c.size + e)] +=
                      ds * load(in[1], c.type, at(c.q, b, h, i) + e);
                }
                for (int64_t e = 0; e < c.value_size; ++e) {
                  dv[static_cast<size_t>(key * c.value_size + e)] +=
                      weight * load(in[0], c.type, at(c.dy, b, h, i) + e);
                }
              }
              for (int64_t e = 0; e < c.size; ++e) {
                store(out[0], c.type, at(c.dq, b, h, i) + e, dq[static_cast<size_t>(e)]);
              }
            }
          }
        }
        for (int64_t row = 0; c.backward && row < c.batch * c.kv_heads * c.keys; ++row) {
          const int64_t b = row / c.keys / c.kv_heads, kv = row / c.keys % c.kv_heads,
                        j = row % c.keys;
          for (int64_t e = 0; e < c.size; ++e) {
            store(out[1], c.type, at(c.dk, b, kv, j) + e,
                  dk[static_cast<size_t>(row * c.size + e)]);
          }
          for (int64_t e = 0; e < c.value_size; ++e) {
            store(out[2], c.type, at(c.dv, b, kv, j) + e,
                  dv[static_cast<size_t>(row * c.value_size + e)]);
          }
        }
      });
}

namespace {

/// Calls f(output offset, input offset) for each cell of each window, outputs in order.
template <typename F>
void for_each_pooled(const gpu::PoolCall& c, F f) {
  const size_t dims = c.kernel.size();
  const int64_t outputs = element_count(c.y), in_plane = element_count(c.x) / (c.x[0] * c.x[1]),
                out_plane = outputs / (c.y[0] * c.y[1]), window = element_count(c.kernel);
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t t = 0; t < window; ++t) {
      int64_t cell = 0, out_rest = o % out_plane, tap_rest = t, stride = 1;
      bool inside = true;
      for (size_t d = dims; d-- > 0;) {
        const int64_t at =
            out_rest % c.y[d + 2] * c.strides[d] + tap_rest % c.kernel[d] - c.pads_begin[d];
        inside = inside && at >= 0 && at < c.x[d + 2];
        cell += at * stride;
        stride *= c.x[d + 2];
        out_rest /= c.y[d + 2];
        tap_rest /= c.kernel[d];
      }
      if (inside) f(o, o / out_plane * in_plane + cell);
    }
  }
}

}  // namespace

std::unique_ptr<gpu::LibraryCall> emulated_pool(const gpu::PoolCall& call, std::string* why) {
  if (call.backward && call.kind == gpu::PoolKind::kMax) {
    if (why != nullptr) *why = "not emulated";
    return nullptr;
  }
  return loops(1, 1, [c = call](const void* const* in, void* const* out) {
    const auto* from = static_cast<const float*>(in[0]);
    auto* to = static_cast<float*>(out[0]);
    std::vector<double> cells(static_cast<size_t>(element_count(c.y)));
    for_each_pooled(c, [&](int64_t o, int64_t) { cells[static_cast<size_t>(o)] += 1; });
    if (c.kind == gpu::PoolKind::kAverageWithPads) {
      std::fill(cells.begin(), cells.end(), static_cast<double>(element_count(c.kernel)));
    }
    std::vector<double> sums(static_cast<size_t>(element_count(c.backward ? c.x : c.y)),
                             c.kind == gpu::PoolKind::kMax ? -INFINITY : 0.0);
    for_each_pooled(c, [&](int64_t o, int64_t i) {
      double& sum = sums[static_cast<size_t>(c.backward ? i : o)];
      if (c.backward) {
        sum += from[o] / cells[static_cast<size_t>(o)];
      } else if (c.kind == gpu::PoolKind::kMax) {
        if (from[i] > sum || std::isnan(from[i])) sum = from[i];
      } else {
        sum += from[i] / cells[static_cast<size_t>(o)];
      }
    });
    for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<float>(sums[i]);
  });
}

std::unique_ptr<gpu::LibraryCall> emulated_softmax(const gpu::SoftmaxCall& call, std::string*) {
  return loops(call.backward ? 2 : 1, 1, [c = call](const void* const* in, void* const* out) {
    for (int64_t row = 0; row < c.outer * c.inner; ++row) {
      const int64_t first = row / c.inner * c.axis * c.inner + row % c.inner;
      const auto at = [&](int64_t i) { return first + i * c.inner; };
      double largest = -INFINITY, sum = 0;
      for (int64_t i = 0; i < c.axis; ++i) largest = std::max(largest, load(in[0], c.type, at(i)));
      for (int64_t i = 0; i < c.axis; ++i) {
        const double v = load(in[0], c.type, at(i));
        if (!c.backward) sum += std::exp(v - largest);
        if (c.backward) sum += c.log ? v : v * load(in[1], c.type, at(i));
      }
      for (int64_t i = 0; i < c.axis; ++i) {
        const double v = load(in[0], c.type, at(i));
        double result = c.log ? v - largest - std::log(sum) : std::exp(v - largest) / sum;
        if (c.backward) {
          const double y = load(in[1], c.type, at(i));
          result = c.log ? v - std::exp(y) * sum : (v - sum) * y;
        }
        store(out[0], c.type, at(i), result);
      }
    }
  });
}

}  // namespace trainrt::testing
