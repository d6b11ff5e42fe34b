#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/threads.h"
#include "trainrt/error.h"
#include "trainrt/version.h"

namespace trainrt::cli {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Trains exported ONNX models.", "trainrt");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("trainrt ") + version());
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    std::string message = "trainrt: error: " + std::string(error.what()) + "\n";
    const CLI::App* at = failed;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    message += "usage: trainrt " +
               (at == failed ? std::string("COMMAND …") : at->get_name() + " [options]") +
               "; all options: trainrt " + (at == failed ? "" : at->get_name() + " ") + "--help\n";
    return message;
  });
  Command command;
  add_run(app, &command);
  add_check(app, &command);
  add_inspect(app, &command);
  add_grad(app, &command);
  add_eval(app, &command);
  add_predict(app, &command);
  add_bench(app, &command);
  add_graph(app, &command);
  add_devices(app, &command);
  add_version(app, &command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return command();
}

}  // namespace
}  // namespace trainrt::cli

int main(int argc, char** argv) {
  using namespace trainrt;
  restart_with_short_spin(argv);
  try {
    return cli::run(argc, argv);
  } catch (const Error& error) {
    cli::print_error(error);
    return cli::exit_code(error);
  } catch (const std::bad_alloc&) {
    std::fputs("trainrt: error: out of memory\n", stderr);
  } catch (const std::exception& error) {
    cli::print_error(std::string(error.what()));
  }
  return 1;
}
