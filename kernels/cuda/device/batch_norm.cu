#include "kernels/cuda/device/batch_norm.h"
#include "kernels/cuda/device/team-inl.h"

namespace trainrt::cuda {
namespace {

template <typename T>
__device__ T at(const void* values, i64 i) {
  return static_cast<const T*>(values)[i];
}

/// What a channel's elements are normalised with. The same bits wherever it is made.
template <typename T>
struct Channel {
  T mean, inverse, factor, bias;

  template <typename Arguments>
  __device__ Channel(const Arguments& args, i64 c)
      : mean(at<T>(args.mean, c)),
        inverse(T(1) / sqrt(at<T>(args.variance, c) + static_cast<T>(args.shape.epsilon))),
        factor(at<T>(args.scale, c) * inverse),
        bias(args.bias == nullptr ? T(0) : at<T>(args.bias, c)) {}

  __device__ T apply(T x) const { return fma(x - mean, factor, bias); }
};

template <typename T>
__device__ T activated(const BatchNormShape& s, T v) {
  if (s.activation == 1) return v > 0 || v != v ? v : T(0);
  if (s.activation == 2) {
    const T lo = static_cast<T>(s.lo), hi = static_cast<T>(s.hi);
    return v < lo ? lo : v > hi ? hi : v;
  }
  return v;
}

/// Whether the gradient passes where the activation's operand (ReLU: or its result) is v.
template <typename T>
__device__ bool passes(const BatchNormShape& s, T v) {
  if (s.activation == 1) return v > 0;
  if (s.activation == 2) return v >= static_cast<T>(s.lo) && v <= static_cast<T>(s.hi);
  return true;
}

/// Elements of a channel in the order of [batch, spatial], every `step`-th from `position` on.
struct Walk {
  i64 offset, inside, spatial, step_offset, step_inside, wrap;

  __device__ Walk(const BatchNormShape& s, i64 channel, i64 position, i64 step)
      : inside(position % s.spatial), spatial(s.spatial), step_inside(step % s.spatial) {
    const i64 image = s.channels * s.spatial;
    offset = position / s.spatial * image + channel * s.spatial + inside;
    step_offset = step / s.spatial * image + step_inside;
    wrap = image - s.spatial;
  }
  __device__ void next() {
    offset += step_offset;
    inside += step_inside;
    if (inside >= spatial) {
      inside -= spatial;
      offset += wrap;
    }
  }
};

/// The block's part of its channels' elements, and this thread's share of that.
struct Share {
  i64 channel, begin, end, first, step;
  bool inside;  // there is such a channel

  __device__ explicit Share(const BatchNormSumsArguments& args) {
    const i64 elements = args.shape.batch * args.shape.spatial;
    channel = i64{blockIdx.x} * args.lanes + threadIdx.x % args.lanes;
    inside = channel < args.shape.channels;
    begin = elements * blockIdx.y / gridDim.y;
    end = elements * (blockIdx.y + 1) / gridDim.y;
    first = begin + threadIdx.x / args.lanes;
    step = 256 / args.lanes;
  }
  __device__ bool writes() const { return inside && first == begin; }
  __device__ i64 result() const { return channel * gridDim.y + blockIdx.y; }
};

/// Each thread sums deviations from its first element, so that large means do no harm; what the
/// threads found is joined by deviations, too.
template <typename T>
__device__ void statistics(const BatchNormSumsArguments& args) {
  const Share s(args);
  const bool half = args.x_half != 0;
  T origin = 0, pivot = 0, sum = 0, squares = 0, count = 0;
  if (s.inside && s.first < s.end) {
    origin = load<T>(args.x, half, Walk(args.shape, s.channel, s.begin, 1).offset);
    Walk walk(args.shape, s.channel, s.first, s.step);
    pivot = load<T>(args.x, half, walk.offset);
    for (i64 i = s.first; i < s.end; i += s.step, walk.next()) {
      const T d = load<T>(args.x, half, walk.offset) - pivot;
      sum += d;
      squares += d * d;
    }
    count = static_cast<T>((s.end - s.first + s.step - 1) / s.step);
  }
  const T all = static_cast<T>(s.end - s.begin);
  const T mean = count > 0 ? (pivot - origin) + sum / count : T(0);
  const T joint = join_lanes<SumOf>(count * mean, args.lanes) / all;
  if (count > 0) {
    const T within = squares - sum * (sum / count);
    squares = (within < 0 ? T(0) : within) + count * (mean - joint) * (mean - joint);
  }
  squares = join_lanes<SumOf>(squares, args.lanes);
  if (!s.writes()) return;
  static_cast<T*>(args.out0)[s.result()] = origin + joint;
  static_cast<T*>(args.out1)[s.result()] = gridDim.y == 1 ? squares / all : squares;
}

template <typename T>
__device__ void join_statistics(const BatchNormJoinArguments& args) {
  const int rank = Warp::rank();
  const T all = static_cast<T>(args.elements);
  const auto count = [&](i64 p) {
    return static_cast<T>(args.elements * (p + 1) / args.parts - args.elements * p / args.parts);
  };
  for (i64 c = Warp::index(); c < args.channels; c += Warp::count()) {
    const T* means = static_cast<const T*>(args.means) + c * args.parts;
    const T origin = means[0];
    T mean = 0, squares = 0;
    for (int p = rank; p < args.parts; p += 32) mean += count(p) * (means[p] - origin);
    mean = Warp::join<SumOf>(mean, T(0)) / all;
    for (int p = rank; p < args.parts; p += 32) {
      const T d = (means[p] - origin) - mean;
      squares += at<T>(args.squares, c * args.parts + p) + count(p) * d * d;
    }
    squares = Warp::join<SumOf>(squares, T(0));
    if (rank == 0) {
      static_cast<T*>(args.mean)[c] = origin + mean;
      static_cast<T*>(args.variance)[c] = squares / all;
    }
  }
}

/// dy where the activation lets it pass. `result`: null where the operand is made again from x.
template <typename T>
__device__ T masked(const BatchNormShape& s, const Channel<T>& channel, T dy, T x, T result,
                    bool remade) {
  if (s.activation == 0) return dy;
  return passes(s, remade ? channel.apply(x) : result) ? dy : T(0);
}

/// dscale = sum of g z, dbias = sum of g
template <typename T>
__device__ void gradient_sums(const BatchNormSumsArguments& args) {
  const Share s(args);
  T scale = 0, bias = 0;
  if (s.inside && s.first < s.end) {
    const Channel<T> channel(args, s.channel);
    Walk walk(args.shape, s.channel, s.first, s.step);
    for (i64 i = s.first; i < s.end; i += s.step, walk.next()) {
      const T x = load<T>(args.x, args.x_half != 0, walk.offset);
      const T dy = load<T>(args.dy, args.dy_half != 0, walk.offset);
      const bool remade = args.result == nullptr;
      const T result = remade ? T(0) : load<T>(args.result, args.result_half != 0, walk.offset);
      const T g = masked(args.shape, channel, dy, x, result, remade);
      scale += g * ((x - channel.mean) * channel.inverse);
      bias += g;
    }
  }
  scale = join_lanes<SumOf>(scale, args.lanes);
  bias = join_lanes<SumOf>(bias, args.lanes);
  if (!s.writes()) return;
  static_cast<T*>(args.out0)[s.result()] = scale;
  static_cast<T*>(args.out1)[s.result()] = bias;
}

/// Elements of each thread that are on their way at once.
constexpr int kItems = 4;

/// Calls f(channel, offset, limit) for the elements that a thread takes in steps of `lanes`.
template <typename Arguments, typename F>
__device__ void for_planes(const Arguments& args, F f) {
  const BatchNormShape& s = args.shape;
  const i64 lane = threadIdx.x % args.lanes, teams = 256 / args.lanes;
  const i64 all = s.batch * s.channels * args.pieces;
  for (i64 t = blockIdx.x * teams + threadIdx.x / args.lanes; t < all; t += gridDim.x * teams) {
    i64 plane = t, begin = 0, end = s.spatial;
    if (args.pieces > 1) {
      plane = t / args.pieces;
      const i64 piece = t % args.pieces;
      begin = s.spatial * piece / args.pieces;
      end = s.spatial * (piece + 1) / args.pieces;
    }
    const i64 c = plane < (i64{1} << 31) && s.channels < (i64{1} << 31)
                      ? static_cast<u32>(plane) % static_cast<u32>(s.channels)
                      : plane % s.channels;
    f(c, plane * s.spatial + begin + lane, end - begin - lane);
  }
}

/// y = act((x - mean) / sd scale + bias + residual)
template <typename T>
__device__ void normalize(const BatchNormArguments& args) {
  const i64 step = args.lanes;
  for_planes(args, [&](i64 c, i64 offset, i64 limit) {
    const Channel<T> channel(args, c);
    for (; limit > 0; offset += kItems * step, limit -= kItems * step) {
      T v[kItems], residual[kItems] = {};
      load_items(args.x, args.x_half != 0, offset, step, limit, v);
      if (args.residual != nullptr) {
        load_items(args.residual, args.residual_half != 0, offset, step, limit, residual);
      }
      TRAINRT_UNROLL
      for (int k = 0; k < kItems; ++k) {
        v[k] = channel.apply(v[k]);
        if (args.residual != nullptr) v[k] += residual[k];
        v[k] = activated(args.shape, v[k]);
      }
      store_items(args.y, args.y_half != 0, offset, step, limit, v);
    }
  });
}

/// dx = scale / sd (g - mean(g) - z mean(g z)); g is the residual's gradient, too.
template <typename T>
__device__ void gradient(const BatchNormGradArguments& args) {
  const i64 step = args.lanes;
  const T count = static_cast<T>(args.shape.batch * args.shape.spatial);
  const bool remade = args.result == nullptr;
  for_planes(args, [&](i64 c, i64 offset, i64 limit) {
    const Channel<T> channel(args, c);
    const T sum = at<T>(args.dbias, c) / count, product = at<T>(args.dscale, c) / count;
    for (; limit > 0; offset += kItems * step, limit -= kItems * step) {
      T g[kItems], x[kItems], result[kItems] = {};
      load_items(args.dy, args.dy_half != 0, offset, step, limit, g);
      load_items(args.x, args.x_half != 0, offset, step, limit, x);
      if (!remade) load_items(args.result, args.result_half != 0, offset, step, limit, result);
      TRAINRT_UNROLL
      for (int k = 0; k < kItems; ++k) {
        g[k] = masked(args.shape, channel, g[k], x[k], result[k], remade);
        x[k] = channel.factor * (g[k] - sum - (x[k] - channel.mean) * channel.inverse * product);
      }
      store_items(args.dx, args.dx_half != 0, offset, step, limit, x);
      if (args.dresidual != nullptr) {
        store_items(args.dresidual, args.dresidual_half != 0, offset, step, limit, g);
      }
    }
  });
}

}  // namespace

#define BATCH_NORM(T, suffix)                                                                     \
  TRAINRT_KERNEL(batch_norm_statistics_##suffix, BatchNormSumsArguments) { statistics<T>(args); } \
  TRAINRT_KERNEL(batch_norm_join_##suffix, BatchNormJoinArguments) { join_statistics<T>(args); }  \
  TRAINRT_KERNEL(batch_norm_sums_##suffix, BatchNormSumsArguments) { gradient_sums<T>(args); }    \
  TRAINRT_KERNEL(batch_norm_##suffix, BatchNormArguments) { normalize<T>(args); }                 \
  TRAINRT_KERNEL(batch_norm_grad_##suffix, BatchNormGradArguments) { gradient<T>(args); }

BATCH_NORM(float, f32)
BATCH_NORM(double, f64)

}  // namespace trainrt::cuda
