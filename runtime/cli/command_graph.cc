#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/cli/step_batch.h"
#include "runtime/data/file.h"
#include "trainrt/error.h"

extern char** environ;

namespace trainrt::cli {
namespace {

namespace fs = std::filesystem;

struct GraphArgs {
  ModelArgs model;
  DataArgs data;
  TrainArgs train;
  std::string stage = "joint", format = "text", out;
};

/// A folder that goes away with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "trainrt-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorCode::kFile,
                  "cannot make a folder in " + fs::temp_directory_path().string());
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string draw_svg(const std::string& dot) {
  const TemporaryFolder folder;
  const std::string source = folder.file("graph.dot"), result = folder.file("graph.svg");
  OutputFile file(source);
  file.write(dot);
  file.commit();
  const std::string out = "-o" + result;
  const char* const argv[] = {"dot", "-Tsvg", out.c_str(), source.c_str(), nullptr};
  pid_t child = 0;
  int status = 0;
  const int error =
      ::posix_spawnp(&child, "dot", nullptr, nullptr, const_cast<char* const*>(argv), environ);
  if (error != 0) {
    throw Error(ErrorCode::kRuntime,
                "--format svg needs the program 'dot' (package graphviz) on PATH; or use --format "
                "dot");
  }
  if (::waitpid(child, &status, 0) != child || status != 0) {
    throw Error(ErrorCode::kRuntime, "'dot' failed to draw the graph");
  }
  return read_file(result);
}

GraphStage parse_stage(const std::string& stage) {
  if (stage == "imported") return GraphStage::kImported;
  if (stage == "specialized") return GraphStage::kSpecialized;
  return stage == "joint" ? GraphStage::kJoint : GraphStage::kPlanned;
}

int graph(const GraphArgs& args) {
  if (args.format == "onnx") {
    throw Error(ErrorCode::kUsage, "--format onnx is not supported by this version of trainrt");
  }
  if (!args.out.empty()) check_writable(args.out);
  const Module module = args.model.load();
  StepBatch step;
  if (args.stage != "imported") {
    step = make_step_batch(module, args.model, args.data, args.train);
  }
  Trainer trainer(module, step.options);
  const GraphFormat format = args.format == "text" ? GraphFormat::kText : GraphFormat::kDot;
  std::string text = trainer.dump(parse_stage(args.stage), format, step.batch);
  if (args.format == "svg") text = draw_svg(text);
  if (args.out.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (!text.ends_with('\n')) std::putchar('\n');
    return 0;
  }
  OutputFile file(args.out);
  file.write(text);
  file.commit();
  return 0;
}

}  // namespace

void add_graph(CLI::App& app, Command* run) {
  CLI::App* command = app.add_subcommand("graph", "The graph after a stage");
  auto args = std::make_shared<GraphArgs>();
  args->model.plan_only = true;
  args->model.add(*command);
  args->data.add(*command, true);
  args->train.add_loss(*command);
  args->train.add_optimizer(*command);
  command->add_option("--stage", args->stage, "Which graph")
      ->check(CLI::IsMember({"imported", "specialized", "joint", "planned"}))
      ->capture_default_str();
  command->add_option("--format", args->format, "How to write it")
      ->check(CLI::IsMember({"text", "dot", "svg", "onnx"}))
      ->capture_default_str();
  command->add_option("--out", args->out, "Instead of stdout")->type_name("FILE");
  command->callback([args, run] { *run = [args] { return graph(*args); }; });
}

}  // namespace trainrt::cli
