#include "runtime/store.h"

#include <cstring>
#include <memory>

namespace trainrt {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void Store::add(std::span<const StoreEntry> entries) {
  size_t total = 0;
  std::vector<const StoreEntry*> fresh;
  for (const StoreEntry& e : entries) {
    if (contains(e.name)) continue;
    fresh.push_back(&e);
    total += aligned(e.type.bytes());
  }
  if (fresh.empty()) return;
  // A Tensor of bytes is aligned, zero-filled and shared by the views.
  auto flat = std::make_shared<Tensor>(DType::kUInt8, Shape{static_cast<int64_t>(total)});
  auto* at = static_cast<std::byte*>(flat->raw());
  for (const StoreEntry* e : fresh) {
    if (!index_.emplace(e->name, values_.size()).second) continue;
    names_.push_back(e->name);
    values_.push_back(Tensor::view(at, e->type.dtype, e->type.shape, flat));
    at += aligned(e->type.bytes());
  }
  bytes_ += total;
}

bool Store::contains(std::string_view name) const { return index_.contains(std::string(name)); }

Tensor Store::find(std::string_view name) const {
  const auto it = index_.find(std::string(name));
  return it == index_.end() ? Tensor() : values_[it->second];
}

void Store::move(const Allocate& allocate) {
  size_t total = 0;
  for (const Tensor& t : values_) total += aligned(t.bytes());
  if (total == 0) return;
  const auto [memory, owner] = allocate(total);
  auto* at = static_cast<std::byte*>(memory);
  for (Tensor& t : values_) {
    Tensor moved = Tensor::view(at, t.dtype(), t.shape(), owner);
    moved.copy_from(t);
    at += aligned(t.bytes());
    t = std::move(moved);
  }
}

void Store::zero() {
  for (Tensor& t : values_) std::memset(t.raw(), 0, t.bytes());
}

}  // namespace trainrt
