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
    enqueue(stream, [f = f_, ins = std::vector<const void*>(in, in + inputs_),
                     outs = std::vector<void*>(out, out + outputs_)] {
      f(ins.data(), outs.data());
    });
  }

 private:
  F f_;
  size_t inputs_, outputs_;
};

template <typename F>
std::unique_ptr<gpu::LibraryCall> loops(size_t inputs, size_t outputs, F f) {
  return std::make_unique<Loops<F>>(std::move(f), inputs, outputs);
}

}  // namespace

std::unique_ptr<gpu::LibraryCall> emulated_matmul(const gpu::MatMulCall& call, std::string*) {
  const bool bias = call.epilogue == gpu::Epilogue::kBias ||
                    call.epilogue == gpu::Epilogue::kBiasRelu ||
                    call.epilogue == gpu::Epilogue::kBiasGelu;
  return loops(bias ? 3 : 2, 1, [c = call, bias](const void* const* in, void* const* out) {
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < c.k; ++k) {
            sum += load(in[0], c.a, b * c.stride_a + (c.trans_a ? k * c.lda + i : i * c.lda + k)) *
                   load(in[1], c.b, b * c.stride_b + (c.trans_b ? j * c.ldb + k : k * c.ldb + j));
          }
          if (bias) sum += load(in[2], c.c, j);
          if (c.epilogue == gpu::Epilogue::kRelu || c.epilogue == gpu::Epilogue::kBiasRelu) {
            sum = sum > 0 ? sum : 0;
          }
          if (c.epilogue == gpu::Epilogue::kBiasGelu) {
            sum = sum / 2 *
                  (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
          }
          store(out[0], c.c, b * c.stride_c + i * c.ldc + j, sum);
        }
      }
    }
  });
}

std::unique_ptr<gpu::LibraryCall> emulated_convolution(const gpu::ConvCall&, std::string* why) {
  if (why != nullptr) *why = "not emulated";
  return nullptr;
}

std::unique_ptr<gpu::LibraryCall> emulated_attention(const gpu::AttentionCall&, std::string* why) {
  if (why != nullptr) *why = "not emulated";
  return nullptr;
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
        const int64_t at = out_rest % c.y[d + 2] * c.strides[d] + tap_rest % c.kernel[d] -
                           c.pads_begin[d];
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
