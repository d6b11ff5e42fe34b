// Functions from outside the IR that its nodes Call and Hook run: kernels and gradients of a user's
// own ops, and hooks on submodules.
#ifndef TRAINRT_GRAPH_CALL_H_
#define TRAINRT_GRAPH_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace trainrt {

/// One run of a Call or Hook node. Outputs are views of the node's own storage; a Hook's hold its
/// leading inputs already.
struct CallRun {
  std::span<const Tensor> inputs;
  std::span<Tensor> outputs;
};

/// A node under differentiation, as a function's gradient sees it.
struct CallGradient {
  Builder& b;
  std::span<const Var> inputs, outputs;
  std::span<const Var> output_gradients;  // absent: nothing flows into that output
  std::vector<bool> needed;               // by input: whether anyone asks for its gradient
};

struct CallFunction {
  std::string name;  // for listings and errors
  std::function<void(const CallRun&)> run;
  /// A gradient per input, trailing ones may be left out. Empty: there is none, and a node on a
  /// path to be differentiated is refused by name.
  std::function<std::vector<Var>(const CallGradient&)> gradient;
};

/// Keeps a function for nodes to name by number. Numbers are never used twice. Thread-safe.
int64_t add_call(CallFunction function);

/// While it lives, what its thread adds is noted; at its end those functions are removed: graphs
/// that name them can no longer be planned, plans that exist keep them. Scopes may nest.
class CallScope {
 public:
  CallScope();
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  friend int64_t add_call(CallFunction function);
  CallScope* outer_;
  std::vector<int64_t> added_;
};

/// Throws Error(kInternal) for an unknown number.
std::shared_ptr<const CallFunction> find_call(int64_t number);

CallAttrs call_attrs(int64_t function, std::span<const TensorType> outputs);
std::vector<TensorType> call_outputs(const CallAttrs& attrs);

}  // namespace trainrt

#endif  // TRAINRT_GRAPH_CALL_H_
