#include "frontend/registered_ops.h"

#include <map>
#include <memory>
#include <mutex>

namespace trainrt {
namespace {

using Key = std::pair<std::string, std::string>;

struct Entry {
  Key key;
  int64_t since = 1;
  RegisteredLowering lowering;
  LoweringRow row;
};

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<Entry>> lowerings;  // a later one wins; models point into them
  std::map<Key, RegisteredGradient> gradients;
  int64_t count = 0;
};

Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

const Entry* find_entry(std::string_view domain, std::string_view op, int64_t opset) {
  const Entry* best = nullptr;
  for (const auto& e : registry().lowerings) {
    if (e->key.first == domain && e->key.second == op && e->since <= opset &&
        (best == nullptr || e->since >= best->since)) {
      best = e.get();
    }
  }
  return best;
}

/// The one function of all rows; the registry knows the node's own.
void lower_registered(LowerContext& c) {
  RegisteredLowering lowering;
  {
    const std::lock_guard lock(registry().mutex);
    const Entry* entry = find_entry(c.domain, c.op, c.opset);
    TRAINRT_CHECK(entry != nullptr, "a registered operator that is not registered");
    lowering = entry->lowering;
  }
  lowering(c);
}

}  // namespace

void register_lowering(const std::string& domain, const std::string& op, int64_t since,
                       RegisteredLowering lowering) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  auto entry = std::make_unique<Entry>();
  entry->key = {domain, op};
  entry->since = since;
  entry->lowering = std::move(lowering);
  entry->row = {entry->key.first, entry->key.second, since, lower_registered};
  r.lowerings.push_back(std::move(entry));
  ++r.count;
}

void register_gradient_rule(const std::string& domain, const std::string& op,
                            RegisteredGradient rule) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.gradients[{domain, op}] = std::move(rule);
  ++r.count;
}

const LoweringRow* find_registered(std::string_view domain, std::string_view op, int64_t opset) {
  const std::lock_guard lock(registry().mutex);
  const Entry* entry = find_entry(domain, op, opset);
  return entry == nullptr ? nullptr : &entry->row;
}

RegisteredGradient find_gradient_rule(std::string_view domain, std::string_view op) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (r.gradients.empty()) return {};
  const auto found = r.gradients.find({std::string(domain), std::string(op)});
  return found == r.gradients.end() ? RegisteredGradient() : found->second;
}

int64_t registrations() {
  const std::lock_guard lock(registry().mutex);
  return registry().count;
}

}  // namespace trainrt
