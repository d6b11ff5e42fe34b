#include "kernels/cuda/device/loss.h"
#include "kernels/cuda/device/team-inl.h"

namespace trainrt::cuda {
namespace {

/// The class of a position, -1 where it is ignored or (reported) no class at all.
__device__ i64 class_of(const LossArguments& args, i64 position) {
  const i64 id = args.wide ? static_cast<const i64*>(args.ids)[position]
                           : static_cast<const int*>(args.ids)[position];
  if (id == args.ignored) return -1;
  if (id >= 0 && id < args.classes) return id;
  report(args.status, args.step);
  return -1;
}

__device__ i64 first_of(const LossArguments& args, i64 position) {
  return position / args.inner * args.classes * args.inner + position % args.inner;
}

/// loss = log of the sum of e^x - x[id]
template <typename T>
__device__ T loss_of(const LossArguments& args, const T* x, i64 id, T largest, T sum) {
  return id < 0 ? T(0) : log(sum) - (x[id * args.inner] - largest);
}

/// Contiguous classes, a warp for each position.
template <typename T>
__device__ void loss_rows(const LossArguments& args) {
  for (i64 p = Warp::index(); p < args.positions; p += Warp::count()) {
    const T* x = static_cast<const T*>(args.x) + p * args.classes;
    const i64 id = class_of(args, p);
    Exponentials<T> part;
    for (i64 i = Warp::rank(); i < args.classes; i += Warp::kSize) part.add(x[i]);
    const T largest = Warp::join<MaxOf>(part.largest, T(0));
    const T sum = Warp::join<SumOf>(part.sum_from(largest), T(0));
    if (Warp::rank() == 0) {
      static_cast<T*>(args.out)[p] = loss_of(args, x, id, largest, sum);
    }
  }
}

/// What a thread of a block does that takes `lanes` positions side by side. All threads run through
/// the same barriers: those without a position have no classes to look at.
struct Column {
  i64 position, first, begin, step;
  bool inside;

  __device__ Column(const LossArguments& args, i64 tile)
      : position(tile * args.lanes + threadIdx.x % args.lanes), step(256 / args.lanes) {
    inside = position < args.positions;
    first = inside ? first_of(args, position) : 0;
    begin = inside ? threadIdx.x / args.lanes : args.classes;
  }
};

template <typename T>
__device__ void join_column(const LossArguments& args, const Column& c, const T* x, T* largest,
                            T* sum) {
  Exponentials<T> part;
  for (i64 i = c.begin; i < args.classes; i += c.step) part.add(x[i * args.inner]);
  *largest = join_lanes<MaxOf>(part.largest, args.lanes);
  *sum = join_lanes<SumOf>(part.sum_from(*largest), args.lanes);
}

template <typename T>
__device__ void loss_columns(const LossArguments& args) {
  for (i64 tile = blockIdx.x; tile * args.lanes < args.positions; tile += gridDim.x) {
    const Column c(args, tile);
    const T* x = static_cast<const T*>(args.x) + c.first;
    T largest, sum;
    join_column(args, c, x, &largest, &sum);
    if (c.inside && threadIdx.x < args.lanes) {
      static_cast<T*>(args.out)[c.position] =
          loss_of(args, x, class_of(args, c.position), largest, sum);
    }
  }
}

/// dx = dloss (softmax(x) - [class == id]), 0 where the position is ignored. The operands of a
/// position are read before dx, which may lie on them, is written.
template <typename Team, int N, typename T>
__device__ void gradient_rows(const LossArguments& args) {
  const int rank = Team::rank(), limit = static_cast<int>(args.classes) - rank;
  for (i64 p = Team::index(); p < args.positions; p += Team::count()) {
    const i64 first = p * args.classes + rank, id = class_of(args, p);
    const T dloss = static_cast<const T*>(args.dloss)[p];
    T v[N];
    load_items(args.x, false, first, Team::kSize, limit, v);
    T largest = lowest_finite(T(0)), sum = 0;
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) {
      if (k * Team::kSize < limit) largest = MaxOf::join(largest, v[k]);
    }
    largest = Team::template join<MaxOf>(largest, lowest_finite(T(0)));
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) {
      if (k * Team::kSize < limit) {
        v[k] = exp(v[k] - largest);
        sum += v[k];
      }
    }
    sum = Team::template join<SumOf>(sum, T(0));
    TRAINRT_UNROLL
    for (int k = 0; k < N; ++k) {
      const T target = rank + k * Team::kSize == id ? T(1) : T(0);
      v[k] = id < 0 ? T(0) : dloss * (v[k] / sum - target);
    }
    store_items(args.out, false, first, Team::kSize, limit, v);
  }
}

template <typename T>
__device__ void gradient_columns(const LossArguments& args) {
  for (i64 tile = blockIdx.x; tile * args.lanes < args.positions; tile += gridDim.x) {
    const Column c(args, tile);
    const T* x = static_cast<const T*>(args.x) + c.first;
    T* dx = static_cast<T*>(args.out) + c.first;
    const i64 id = c.inside ? class_of(args, c.position) : -1;
    const T dloss = c.inside ? static_cast<const T*>(args.dloss)[c.position] : T(0);
    T largest, sum;
    join_column(args, c, x, &largest, &sum);
    for (i64 i = c.begin; i < args.classes; i += c.step) {
      const T share = exp(x[i * args.inner] - largest) / sum;
      dx[i * args.inner] = id < 0 ? T(0) : dloss * (share - (i == id ? T(1) : T(0)));
    }
  }
}

/// loss = -x[id]
template <typename T>
__device__ void nll(const LossArguments& args) {
  for (i64 p = global_index(); p < args.positions; p += global_size()) {
    const i64 id = class_of(args, p);
    static_cast<T*>(args.out)[p] =
        id < 0 ? T(0) : -static_cast<const T*>(args.x)[first_of(args, p) + id * args.inner];
  }
}

/// Into zeros.
template <typename T>
__device__ void nll_gradient(const LossArguments& args) {
  for (i64 p = global_index(); p < args.positions; p += global_size()) {
    const i64 id = class_of(args, p);
    if (id < 0) continue;
    static_cast<T*>(args.out)[first_of(args, p) + id * args.inner] =
        -static_cast<const T*>(args.dloss)[p];
  }
}

}  // namespace

#define LOSS(T, suffix)                                                                    \
  TRAINRT_KERNEL(cross_entropy_rows_##suffix, LossArguments) { loss_rows<T>(args); }       \
  TRAINRT_KERNEL(cross_entropy_columns_##suffix, LossArguments) { loss_columns<T>(args); } \
  TRAINRT_KERNEL(cross_entropy_grad_warp2_##suffix, LossArguments) {                       \
    gradient_rows<Warp, 2, T>(args);                                                       \
  }                                                                                        \
  TRAINRT_KERNEL(cross_entropy_grad_warp8_##suffix, LossArguments) {                       \
    gradient_rows<Warp, 8, T>(args);                                                       \
  }                                                                                        \
  TRAINRT_KERNEL(cross_entropy_grad_warp32_##suffix, LossArguments) {                      \
    gradient_rows<Warp, 32, T>(args);                                                      \
  }                                                                                        \
  TRAINRT_KERNEL(cross_entropy_grad_block16_##suffix, LossArguments) {                     \
    gradient_rows<Block, 16, T>(args);                                                     \
  }                                                                                        \
  TRAINRT_KERNEL(cross_entropy_grad_columns_##suffix, LossArguments) {                     \
    gradient_columns<T>(args);                                                             \
  }                                                                                        \
  TRAINRT_KERNEL(nll_##suffix, LossArguments) { nll<T>(args); }                            \
  TRAINRT_KERNEL(nll_grad_##suffix, LossArguments) { nll_gradient<T>(args); }

LOSS(float, f32)
LOSS(double, f64)

}  // namespace trainrt::cuda
