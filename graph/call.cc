#include "graph/call.h"

#include <map>
#include <mutex>
#include <utility>

namespace trainrt {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<int64_t, std::shared_ptr<const CallFunction>> functions;
  int64_t next = 1;
};

// Never destroyed: plans may be torn down after main() has returned.
Registry& registry() {
  static Registry& instance = *new Registry;
  return instance;
}

thread_local CallScope* scope = nullptr;

}  // namespace

CallScope::CallScope() : outer_(std::exchange(scope, this)) {}

CallScope::~CallScope() {
  scope = outer_;
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (int64_t number : added_) r.functions.erase(number);
}

int64_t add_call(CallFunction function) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.functions[r.next] = std::make_shared<const CallFunction>(std::move(function));
  if (scope != nullptr) scope->added_.push_back(r.next);
  return r.next++;
}

std::shared_ptr<const CallFunction> find_call(int64_t number) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  const auto found = r.functions.find(number);
  if (found == r.functions.end()) {
    throw Error(ErrorCode::kInternal,
                "function " + std::to_string(number) + " of a Call is not registered");
  }
  return found->second;
}

CallAttrs call_attrs(int64_t function, std::span<const TensorType> outputs) {
  CallAttrs attrs{function, {}};
  for (const TensorType& type : outputs) {
    attrs.outputs.push_back(static_cast<int64_t>(type.dtype));
    attrs.outputs.push_back(type.rank());
    attrs.outputs.insert(attrs.outputs.end(), type.shape.begin(), type.shape.end());
  }
  return attrs;
}

std::vector<TensorType> call_outputs(const CallAttrs& attrs) {
  std::vector<TensorType> types;
  const Shape& list = attrs.outputs;
  for (size_t i = 0; i < list.size();) {
    const int64_t rank = i + 1 < list.size() ? list[i + 1] : -1;
    if (rank < 0 || rank > static_cast<int64_t>(list.size() - i - 2) || list[i] < 0 ||
        list[i] > static_cast<int64_t>(DType::kBool)) {
      throw Error(ErrorCode::kInvalidModel, "the types of a Call's outputs are damaged");
    }
    const auto dims = list.begin() + static_cast<int64_t>(i) + 2;
    types.push_back({static_cast<DType>(list[i]), Shape(dims, dims + rank)});
    i += static_cast<size_t>(rank) + 2;
  }
  return types;
}

}  // namespace trainrt
