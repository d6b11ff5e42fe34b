// What cuBLASLt and cuDNN are asked for, by plain loops in double.
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

std::unique_ptr<gpu::LibraryCall> emulated_attention(const gpu::AttentionCall&, std::string* why) {
  *why = "not emulated";
  return nullptr;
}

std::unique_ptr<gpu::LibraryCall> emulated_pool(const gpu::PoolCall&, std::string* why) {
  *why = "not emulated";
  return nullptr;
}

std::unique_ptr<gpu::LibraryCall> emulated_softmax(const gpu::SoftmaxCall&, std::string* why) {
  *why = "not emulated";
  return nullptr;
}

}  // namespace trainrt::testing
