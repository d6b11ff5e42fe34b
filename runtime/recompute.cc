#include "runtime/recompute.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "runtime/cost.h"
#include "runtime/norm_conv.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

/// Arithmetic that takes as long as moving a byte.
constexpr int64_t kFlopsPerByte = 16;
/// How many times the operands of a norm are read and written.
constexpr int64_t kNormPasses = 2;
/// Elementwise functions without a vectorised kernel, and what walks memory in strides.
constexpr int64_t kSlowPasses = 4;

/// Attention and recurrent nodes multiply small blocks, at about a third of the rate of large
/// products: each of their flops counts as so many.
constexpr int64_t kSmallProducts = 3;

constexpr double kDefaultWeight = 1.0 / 16;

/// No more than a few instructions an element.
bool is_cheap(Op op) {
  switch (op) {
    case Op::kNeg:
    case Op::kAbs:
    case Op::kSign:
    case Op::kSqrt:
    case Op::kReciprocal:
    case Op::kTanh:
    case Op::kSigmoid:
    case Op::kGelu:
    case Op::kSilu:
    case Op::kRelu:
    case Op::kClip:
    case Op::kNot:
    case Op::kIsNaN:
    case Op::kCast:
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kMax:
    case Op::kMin:
    case Op::kEqual:
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kGreater:
    case Op::kGreaterEqual:
    case Op::kAnd:
    case Op::kOr:
    case Op::kXor:
    case Op::kWhere:
      return true;
    default:
      return false;
  }
}

bool is_norm(Op op) { return op == Op::kBatchNorm || op == Op::kLayerNorm || op == Op::kRmsNorm; }

int64_t bytes_of(const Graph& graph, const Node& node) {
  return static_cast<int64_t>(node_bytes(graph, node));
}

/// Of nodes that run again by default; -1: they never do.
int64_t light_cost(const RowTable& rows, const Graph& graph, const Node& node) {
  if (is_cheap(node.op)) return bytes_of(graph, node);
  if (node.op == Op::kBatchNorm) {
    // One pass, for the statistics are known; none where the result is not kept anyway.
    return joins_convolution(graph, node, rows) ? -1 : bytes_of(graph, node);
  }
  return is_norm(node.op) ? kNormPasses * bytes_of(graph, node) : -1;
}

/// Products inside attention and recurrent nodes, which node_flops() leaves out, in flops of large
/// products that take as long.
int64_t inner_flops(const Graph& graph, const Node& node) {
  if (node.op != Op::kAttention && node.op != Op::kLstm && node.op != Op::kGru) return 0;
  const TensorType& result = graph.type(node.outputs[0]);
  if (node.op == Op::kAttention) {
    // Two products over the keys: at most one for each query there is.
    const Shape& logs = graph.type(node.outputs[1]).shape;
    return kSmallProducts * 4 * result.size() * (logs.empty() ? 1 : logs.back());
  }
  const Shape& states = result.shape;
  return kSmallProducts * 8 * result.size() * (states.empty() ? 1 : states.back());
}

int64_t full_cost(const RowTable& rows, const Graph& graph, const Node& node) {
  const int64_t light = light_cost(rows, graph, node);
  if (light >= 0 || node.op == Op::kBatchNorm) return light;
  const int64_t flops = node_flops(graph, node) + inner_flops(graph, node);
  if (flops > 0) return bytes_of(graph, node) + flops / kFlopsPerByte;
  return kSlowPasses * bytes_of(graph, node);
}

int64_t forward_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (const Node& node : graph.nodes()) {
    if (node.section != Section::kForward || is_view(node.op) || node.op == Op::kInput) continue;
    for (ValueId v : node.outputs) bytes += static_cast<int64_t>(graph.type(v).bytes());
  }
  return bytes;
}

/// What a node of the forward section may cost: up to `limit`, in storage order, anything.
RecomputeOptions options_for(const RowTable& rows, int64_t segment_bytes, double weight,
                             int32_t limit) {
  RecomputeOptions options;
  options.cost = [&rows, limit](const Graph& graph, const Node& node) {
    const bool early = graph.value(node.outputs[0]).producer.index < limit;
    return early ? full_cost(rows, graph, node) : light_cost(rows, graph, node);
  };
  options.weight = weight;
  options.max_depth = std::numeric_limits<int32_t>::max();
  options.segment_bytes = segment_bytes;
  return options;
}

class Search {
 public:
  Search(size_t budget, const RowTable& rows, const FinishGraph& finish,
         const MeasureArena& arena_of)
      : budget_(budget), rows_(rows), finish_(finish), arena_of_(arena_of) {}

  Graph run(const Graph& joint, RecomputeReport* report) {
    if (!fits(default_recompute(rows_))) {
      // Values that are made again lie in the arena until their part of the forward section is
      // done with; many parts leave more on their borders.
      const int64_t bytes = forward_bytes(joint);
      for (const int64_t parts : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48}) {
        search_weights(bytes / parts, joint.node_count());
      }
      if (best_) search_limits(joint.node_count());
    }
    if (!best_) {
      throw Error(ErrorCode::kMemory,
                  "memory budget of " + std::to_string(budget_) +
                      " bytes: the intermediate values of this step need at least " +
                      std::to_string(smallest_) +
                      " bytes, however much is computed again; raise --memory-budget "
                      "(ModuleOptions::memory_budget) to that, or make the batch smaller");
    }
    *report = report_;
    return std::move(*best_);
  }

 private:
  /// From everything that can be made again to what is worth its bytes many times.
  void search_weights(int64_t segment_bytes, int32_t nodes) {
    constexpr double kWeights[] = {0, 1e-3, 4e-3, 1.0 / 64, 1.0 / 32, kDefaultWeight};
    size_t low = 0, high = std::size(kWeights);  // kWeights[low] fits
    const auto fits_with = [&](double weight) {
      if (!fits(options_for(rows_, segment_bytes, weight, nodes))) return false;
      if (report_.cost != chosen_cost_) {
        chosen_cost_ = report_.cost;
        segment_bytes_ = segment_bytes;
        weight_ = weight;
      }
      return true;
    };
    if (!fits_with(kWeights[low])) return;
    while (high - low > 1) {
      const size_t middle = (low + high) / 2;
      (fits_with(kWeights[middle]) ? low : high) = middle;
    }
  }

  /// Layers that look alike are all treated alike: the last ones may be let off.
  void search_limits(int32_t nodes) {
    constexpr int32_t kSteps = 64;
    int32_t low = 0, high = kSteps;  // parts of the nodes; high fits
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      const auto limit = static_cast<int32_t>(int64_t{nodes} * middle / kSteps);
      (fits(options_for(rows_, segment_bytes_, weight_, limit)) ? high : low) = middle;
    }
  }

  /// Keeps the graph when it is the cheapest that fits so far.
  bool fits(const RecomputeOptions& options) {
    RecomputeReport report;
    Graph graph = finish_(options, &report);
    const size_t arena = arena_of_(graph);
    smallest_ = std::min(smallest_, arena);
    if (arena > budget_) return false;
    if (!best_ || report.cost < report_.cost) {
      best_ = std::move(graph);
      report_ = report;
    }
    return true;
  }

  const size_t budget_;
  const RowTable& rows_;
  const FinishGraph& finish_;
  const MeasureArena& arena_of_;
  std::optional<Graph> best_;
  RecomputeReport report_;
  size_t smallest_ = std::numeric_limits<size_t>::max();
  // Of the cheapest graph that fits:
  int64_t chosen_cost_ = -1, segment_bytes_ = 0;
  double weight_ = 0;
};

}  // namespace

RecomputeOptions default_recompute(const RowTable& rows) {
  RecomputeOptions options;
  options.cost = [&rows](const Graph& graph, const Node& node) {
    return light_cost(rows, graph, node);
  };
  options.weight = kDefaultWeight;
  return options;
}

Graph recompute_within(size_t budget, const RowTable& rows, const Graph& joint,
                       const FinishGraph& finish, const MeasureArena& arena_of,
                       RecomputeReport* report) {
  return Search(budget, rows, finish, arena_of).run(joint, report);
}

}  // namespace trainrt
