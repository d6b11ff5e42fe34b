#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/cli/step_batch.h"
#include "runtime/cli/trace.h"
#include "runtime/data/file.h"

namespace trainrt::cli {
namespace {

struct BenchArgs {
  ModelArgs model;
  DataArgs data;
  TrainArgs train;
  double seconds = 5;
  std::string profile;
};

/// The rows that took most of the step.
void print_profile(const std::vector<NodeTiming>& nodes) {
  struct Total {
    double ms = 0;
    int64_t flops = 0, bytes = 0, nodes = 0;
  };
  std::map<std::string, Total> by_row;
  double all = 0;
  for (const NodeTiming& n : nodes) {
    Total& t = by_row[n.op + " [" + n.kernel + "]"];
    t.ms += n.ms;
    t.flops += n.flops;
    t.bytes += n.bytes;
    ++t.nodes;
    all += n.ms;
  }
  std::vector<std::pair<std::string, Total>> rows(by_row.begin(), by_row.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.ms > b.second.ms; });
  std::printf("\n%10s %6s %6s %9s %8s  %s\n", "ms", "share", "nodes", "GFLOP/s", "GB/s", "node");
  constexpr size_t kShown = 20;
  for (size_t i = 0; i < std::min(kShown, rows.size()); ++i) {
    const Total& t = rows[i].second;
    const double rate = t.ms > 0 ? 1e-6 / t.ms : 0;
    std::printf("%10.3f %5.1f%% %6ld %9.1f %8.1f  %s\n", t.ms, all > 0 ? 100 * t.ms / all : 0.0,
                t.nodes, static_cast<double>(t.flops) * rate, static_cast<double>(t.bytes) * rate,
                rows[i].first.c_str());
  }
}

int bench(const BenchArgs& args) {
  if (!args.profile.empty()) check_writable(args.profile);
  const Module module = args.model.load();
  const StepBatch step = make_step_batch(module, args.model, args.data, args.train);
  Trainer trainer(module, step.options);
  const MemoryGrowth growth;
  const BenchResult r = trainer.bench(step.batch, args.seconds);
  const int64_t step_peak = growth.peak(), step_memory = growth.bytes();
  std::vector<NodeTiming> nodes;
  if (!args.profile.empty()) {
    nodes = trainer.profile(step.batch);
    write_trace(args.profile, nodes);
  }
  const double gflops = r.step_ms > 0 ? static_cast<double>(r.plan.flops) / (r.step_ms * 1e6) : 0.0;
  if (args.model.json) {
    print_json({{"step_ms", r.step_ms},
                {"forward_ms", r.forward_ms},
                {"backward_ms", r.backward_ms},
                {"update_ms", r.update_ms},
                {"plan_ms", r.plan.plan_ms},
                {"arena_bytes", r.plan.arena_bytes},
                {"arena_lower_bound_bytes", r.plan.arena_lower_bound_bytes},
                {"recomputed_values", r.plan.recomputed_values},
                {"recomputed_bytes", r.plan.recomputed_bytes},
                {"recomputed_flops", r.plan.recomputed_flops},
                {"loaded_rss_bytes", growth.before()},
                {"step_peak_rss_bytes", step_peak},
                {"step_memory_bytes", step_memory},
                {"planned_bytes", r.plan.step_bytes},
                {"peak_rss_bytes", peak_rss_bytes()},
                {"flops", r.plan.flops},
                {"gflops_per_s", gflops},
                {"loss", r.loss},
                {"steps", r.steps}});
    return 0;
  }
  std::printf("step     %.3f ms (median of %ld)\n", r.step_ms, r.steps);
  std::printf("forward  %.3f ms\nbackward %.3f ms\nupdate   %.3f ms\nplan     %.1f ms\n",
              r.forward_ms, r.backward_ms, r.update_ms, r.plan.plan_ms);
  const auto readable_size = [](auto bytes) { return readable_bytes(static_cast<double>(bytes)); };
  std::printf("arena    %s (lower bound %s)\n", readable_size(r.plan.arena_bytes).c_str(),
              readable_size(r.plan.arena_lower_bound_bytes).c_str());
  std::printf("memory   %s more than the loaded model's %s; planned %s (peak rss %s)\n",
              readable_size(step_memory).c_str(), readable_size(growth.before()).c_str(),
              readable_size(r.plan.step_bytes).c_str(), readable_size(peak_rss_bytes()).c_str());
  if (r.plan.recomputed_values > 0) {
    std::printf("again    %ld values: %s less kept, %.3g flops more\n", r.plan.recomputed_values,
                readable_bytes(static_cast<double>(r.plan.recomputed_bytes)).c_str(),
                static_cast<double>(r.plan.recomputed_flops));
  }
  std::printf("work     %.3g flops a step, %.1f GFLOP/s\nloss     %s\n",
              static_cast<double>(r.plan.flops), gflops, readable(r.loss).c_str());
  if (!nodes.empty()) print_profile(nodes);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Command* run) {
  CLI::App* command = app.add_subcommand("bench", "Time and memory of a training step");
  auto args = std::make_shared<BenchArgs>();
  args->model.add(*command);
  args->data.add(*command, true);
  args->train.add_loss(*command);
  args->train.add_optimizer(*command);
  command->add_option("--seconds", args->seconds, "How long to measure")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--profile", args->profile,
                   "Node by node: a table, and a Chrome trace in this file")
      ->type_name("trace.json");
  command->callback([args, run] { *run = [args] { return bench(*args); }; });
}

}  // namespace trainrt::cli
