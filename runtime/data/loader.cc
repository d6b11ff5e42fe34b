#include "runtime/data/loader.h"

#include <algorithm>
#include <numeric>

#include "kernels/philox.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr uint32_t kShuffleStream = 0x53485546;

}  // namespace

std::vector<int64_t> permutation(int64_t n, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), int64_t{0});
  const Philox philox{seed, static_cast<uint64_t>(epoch), kShuffleStream};
  for (uint64_t i = static_cast<uint64_t>(n); i-- > 1;) {
    const auto words = philox(i);
    const uint64_t random = uint64_t{words[0]} << 32 | words[1];
    // The high half of random * (i + 1): even to within 2^-64 * n.
    const auto j = static_cast<uint64_t>((static_cast<unsigned __int128>(random) * (i + 1)) >> 64);
    std::swap(out[i], out[j]);
  }
  return out;
}

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset), options_(options) {
  if (options_.whole) return;
  if (options_.batch < 1) {
    throw Error(ErrorCode::kUsage, "the batch size must be at least 1 or 'all'");
  }
  samples_ = dataset.size();
  batches_ = samples_ / options_.batch;
  if (!options_.drop_last && samples_ % options_.batch != 0) ++batches_;
  if (batches_ == 0) {
    throw Error(ErrorCode::kInput, "the data holds " + std::to_string(samples_) +
                                       " samples: not one batch of " +
                                       std::to_string(options_.batch));
  }
}

int64_t Loader::samples(int64_t batch) const {
  if (options_.whole) return 0;
  return std::min(options_.batch, samples_ - batch * options_.batch);
}

const std::vector<int64_t>& Loader::order(int64_t epoch) {
  if (!options_.shuffle) epoch = 0;
  if (ordered_epoch_ != epoch) {
    if (options_.shuffle) {
      order_ = permutation(samples_, options_.seed, epoch);
    } else {
      order_.resize(static_cast<size_t>(samples_));
      std::iota(order_.begin(), order_.end(), int64_t{0});
    }
    ordered_epoch_ = epoch;
  }
  return order_;
}

void Loader::set_seed(uint64_t seed) {
  options_.seed = seed;
  ordered_epoch_ = -1;
}

TensorMap Loader::batch(int64_t epoch, int64_t index) {
  if (options_.whole) return dataset_.whole();
  TRAINRT_CHECK(index >= 0 && index < batches_, "batch " + std::to_string(index));
  const std::span<const int64_t> all = order(epoch);
  return dataset_.batch(
      all.subspan(static_cast<size_t>(index * options_.batch), static_cast<size_t>(samples(index))),
      {options_.seed, epoch, options_.augment});
}

}  // namespace trainrt
