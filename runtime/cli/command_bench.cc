#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/cli/step_batch.h"
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

/// Chrome's trace format, one track a section.
void write_trace(const std::string& path, const std::vector<NodeTiming>& nodes) {
  Json events = Json::array();
  for (const NodeTiming& node : nodes) {
    events.push_back({{"name", node.name.empty() ? node.op : node.name + " (" + node.op + ")"},
                      {"cat", node.section},
                      {"ph", "X"},
                      {"ts", node.start_ms * 1000},
                      {"dur", node.ms * 1000},
                      {"pid", 1},
                      {"tid", node.section},
                      {"args", {{"kernel", node.kernel}, {"op", node.op}}}});
  }
  OutputFile file(path);
  file.write(Json({{"traceEvents", events}}).dump(-1, ' ', false, Json::error_handler_t::replace));
  file.commit();
}

int bench(const BenchArgs& args) {
  if (!args.profile.empty()) check_writable(args.profile);
  const Module module = args.model.load();
  const StepBatch step = make_step_batch(module, args.model, args.data, args.train);
  Trainer trainer(module, step.options);
  const BenchResult r = trainer.bench(step.batch, args.seconds);
  if (!args.profile.empty()) write_trace(args.profile, trainer.profile(step.batch));
  const double gflops = r.step_ms > 0 ? static_cast<double>(r.plan.flops) / (r.step_ms * 1e6) : 0.0;
  if (args.model.json) {
    print_json({{"step_ms", r.step_ms},
                {"forward_ms", r.forward_ms},
                {"backward_ms", r.backward_ms},
                {"update_ms", r.update_ms},
                {"plan_ms", r.plan.plan_ms},
                {"arena_bytes", r.plan.arena_bytes},
                {"arena_lower_bound_bytes", r.plan.arena_lower_bound_bytes},
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
  std::printf("arena    %s (lower bound %s)\npeak rss %s\n",
              readable_bytes(static_cast<double>(r.plan.arena_bytes)).c_str(),
              readable_bytes(static_cast<double>(r.plan.arena_lower_bound_bytes)).c_str(),
              readable_bytes(static_cast<double>(peak_rss_bytes())).c_str());
  std::printf("work     %.3g flops a step, %.1f GFLOP/s\nloss     %s\n",
              static_cast<double>(r.plan.flops), gflops, readable(r.loss).c_str());
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
  command->add_option("--profile", args->profile, "One step node by node, as a Chrome trace")
      ->type_name("trace.json");
  command->callback([args, run] { *run = [args] { return bench(*args); }; });
}

}  // namespace trainrt::cli
