#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>

#include "runtime/cli/batch_source.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "trainrt/error.h"

namespace trainrt::cli {
namespace {

struct CheckArgs {
  ModelArgs model;
  DataArgs data;
};

/// The batch to check with; empty: made up by the module.
TensorMap check_inputs(const Module& module, const CheckArgs& args) {
  const TensorMap fixed = args.model.fixed_inputs(module);
  TensorMap inputs;
  if (!args.data.data.empty()) {
    SourceOptions options;
    options.spec = args.data.data;
    options.targets = false;
    options.batch = args.data.batch;
    BatchSource source(module, args.data, fixed, options);
    inputs = source.batch(0, 0);
  } else if (!args.data.shapes.empty() || !args.data.batch.empty() || !fixed.empty()) {
    inputs = made_up_inputs(module, args.data, args.model.seed, fixed);
  }
  inputs.insert(fixed.begin(), fixed.end());
  return inputs;
}

int report(const CheckArgs& args, const std::vector<Problem>& problems, int64_t parameters,
           size_t tensors) {
  if (args.model.json) {
    Json list = Json::array();
    for (const Problem& problem : problems) list.push_back(to_json(problem));
    print_json({{"trainable", problems.empty()}, {"problems", list}, {"parameters", parameters}});
  } else if (problems.empty()) {
    std::printf("%s can be trained: %s parameters in %zu tensors\n", args.model.path.c_str(),
                with_commas(parameters).c_str(), tensors);
  } else {
    std::printf("%s cannot be trained: %zu problem%s\n", args.model.path.c_str(), problems.size(),
                problems.size() == 1 ? "" : "s");
    for (const Problem& problem : problems) {
      std::printf("  %s [%s]\n", to_string(problem).c_str(), problem.kind.c_str());
    }
    std::set<std::string> kinds;
    for (const Problem& problem : problems) {
      if (!kinds.insert(problem.kind).second || advice(problem.kind).empty()) continue;
      std::printf("%s: %s\n", problem.kind.c_str(), std::string(advice(problem.kind)).c_str());
    }
  }
  return problems.empty() ? 0 : 3;
}

/// The list that a refusal stands for.
std::vector<Problem> problems_of(const Error& error) {
  if (!error.problems().empty()) return error.problems();
  Problem problem;
  problem.kind = error.code() == ErrorCode::kInvalidModel ? "invalid" : "unsupported";
  problem.reason = error.what();
  return {problem};
}

int check(const CheckArgs& args) {
  try {
    Module module = args.model.load();
    const TensorMap inputs = check_inputs(module, args);
    return report(args, module.check(inputs), parameter_elements(module),
                  module.parameters().size());
  } catch (const Error& error) {
    if (exit_code(error) != 3) throw;
    return report(args, problems_of(error), 0, 0);
  }
}

}  // namespace

void add_check(CLI::App& app, Command* run) {
  CLI::App* command =
      app.add_subcommand("check", "List everything that stands in the way of training a model");
  auto args = std::make_shared<CheckArgs>();
  args->model.plan_only = true;
  args->model.add(*command);
  args->data.add(*command, true);
  command->callback([args, run] { *run = [args] { return check(*args); }; });
}

}  // namespace trainrt::cli
