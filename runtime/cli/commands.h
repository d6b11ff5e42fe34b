// One function per command: adds a subcommand whose callback sets *run.
#ifndef TRAINRT_RUNTIME_CLI_COMMANDS_H_
#define TRAINRT_RUNTIME_CLI_COMMANDS_H_

#include <functional>


namespace CLI {
class App;
}  // namespace CLI

namespace trainrt::cli {

/// What the command line asked for; returns the exit code.
using Command = std::function<int()>;

void add_run(CLI::App& app, Command* run);
void add_check(CLI::App& app, Command* run);
void add_inspect(CLI::App& app, Command* run);
void add_grad(CLI::App& app, Command* run);
void add_eval(CLI::App& app, Command* run);
void add_predict(CLI::App& app, Command* run);
void add_bench(CLI::App& app, Command* run);
void add_graph(CLI::App& app, Command* run);
void add_devices(CLI::App& app, Command* run);
void add_version(CLI::App& app, Command* run);

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_COMMANDS_H_
