// Holds trainrt against the cases of ONNX's backend tests. Every case passes, or the model tells
// why it is out of scope and the list of those names it.
//
//   onnx_backend_test --data FOLDER --list FILE [--differences FILE]... [--only GLOB] [--jobs N]
//                     [--verbose]
//   onnx_backend_test --data FOLDER [--data FOLDER]... --list FILE --write
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "runtime/glob.h"
#include "tests/conformance/run_case.h"
#include "tests/conformance/scope.h"

namespace trainrt::conformance {
namespace {

struct Result {
  std::string fault;  // empty: passed
  std::string scope;  // why the case is out of scope, or empty
};

/// The cases at [first, end) in steps of `stride`, in a process of their own: a crash, too, is the
/// result of one case.
class Worker {
 public:
  Worker(const std::vector<Case>& cases, std::vector<Result>& results, size_t first, size_t stride)
      : cases_(cases), results_(results), next_(first), stride_(stride) {
    start();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool done() const { return fd_ < 0; }
  int fd() const { return fd_; }

  /// Takes what the process has written.
  void read_results() {
    char buffer[1 << 16];
    const ssize_t n = read(fd_, buffer, sizeof buffer);
    if (n > 0) text_.append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      const size_t tab = text_.find('\t');
      results_[next_] = {text_.substr(tab + 1, end - tab - 1), text_.substr(0, tab)};
      next_ += stride_;
    }
    if (n > 0) return;
    close(fd_);
    fd_ = -1;
    int status = 0;
    waitpid(process_, &status, 0);
    if (next_ >= cases_.size()) return;
    results_[next_].fault = "the process ended with status " + std::to_string(status);
    results_[next_].scope = out_of_scope(read_model(cases_[next_]));
    next_ += stride_;
    text_.clear();
    if (next_ < cases_.size()) start();
  }

 private:
  void start() {
    int ends[2];
    if (pipe(ends) != 0) throw Error(ErrorCode::kInternal, "no pipe");
    std::fflush(nullptr);
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      work(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    fd_ = ends[0];
  }

  void work(int fd) const {
    FILE* out = fdopen(fd, "w");
    for (size_t i = next_; i < cases_.size(); i += stride_) {
      const onnx::ModelProto model = read_model(cases_[i]);
      const std::string scope = out_of_scope(model), fault = run_case(cases_[i], model);
      std::fprintf(out, "%s\t%s\n", scope.c_str(), fault.c_str());
      std::fflush(out);
    }
  }

  const std::vector<Case>& cases_;
  std::vector<Result>& results_;
  size_t next_;
  const size_t stride_;
  pid_t process_ = -1;
  int fd_ = -1;
  std::string text_;
};

std::vector<Result> run_all(const std::vector<Case>& cases, size_t jobs) {
  std::vector<Result> results(cases.size());
  std::vector<std::unique_ptr<Worker>> workers;
  for (size_t i = 0; i < std::min(jobs, cases.size()); ++i) {
    workers.push_back(std::make_unique<Worker>(cases, results, i, jobs));
  }
  for (;;) {
    std::vector<pollfd> waiting;
    std::vector<Worker*> order;
    for (auto& w : workers) {
      if (w->done()) continue;
      waiting.push_back({w->fd(), POLLIN, 0});
      order.push_back(w.get());
    }
    if (waiting.empty()) return results;
    poll(waiting.data(), waiting.size(), -1);
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) order[i]->read_results();
    }
  }
}

/// Reasons by case.
std::map<std::string, std::string> read_list(const std::string& path) {
  std::map<std::string, std::string> list;
  std::ifstream in(path);
  if (!in) throw Error(ErrorCode::kFile, path + ": cannot be read");
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    if (line.empty() || line[0] == '#' || tab == std::string::npos) continue;
    list[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return list;
}

void write_list(const std::string& path, const std::map<std::string, std::string>& list) {
  std::ofstream out(path);
  out << "# Written by onnx_backend_test --write, see tests/conformance/README.md.\n";
  for (const auto& [name, reason] : list) out << name << '\t' << reason << '\n';
  if (!out.flush()) throw Error(ErrorCode::kFile, path + ": cannot be written");
}

/// What is wrong with a result, given the reason that the list has for the case ("" when it has
/// none).
std::string judge(const Result& r, const std::string& listed, bool different) {
  if (different) return r.fault.empty() ? "passes, but is listed as different" : "";
  if (r.fault.empty()) return listed.empty() ? "" : "passes, but is listed as out of scope";
  if (r.scope.empty()) return r.fault;
  if (listed == r.scope) return "";
  return "is out of scope (" + r.scope + "), listed as '" + listed + "': write the list again";
}

struct Arguments {
  std::vector<std::string> data;
  std::string list, only = "*";
  std::vector<std::string> differences;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  bool write = false, verbose = false;
};

int run(const Arguments& args) {
  std::map<std::string, std::string> list, different;
  if (!args.write) list = read_list(args.list);
  for (const std::string& path : args.differences) different.merge(read_list(path));
  size_t passed = 0, failed = 0, outside = 0;
  for (const std::string& folder : args.data) {
    std::vector<Case> cases = find_cases(folder);
    std::erase_if(cases, [&](const Case& c) { return !glob_match(args.only, c.name); });
    const std::vector<Result> results = run_all(cases, args.jobs);
    for (size_t i = 0; i < cases.size(); ++i) {
      const Result& r = results[i];
      const std::string& name = cases[i].name;
      if (args.write && !r.fault.empty() && !r.scope.empty()) list[name] = r.scope;
      const auto listed = list.find(name);
      const std::string verdict =
          judge(r, listed == list.end() ? "" : listed->second, different.contains(name));
      if (!verdict.empty()) std::printf("FAIL %s: %s\n", name.c_str(), verdict.c_str());
      if (args.verbose && verdict.empty()) {
        std::printf("%s %s\n", r.fault.empty() ? "ok  " : "out ", name.c_str());
      }
      ++(!verdict.empty() ? failed : r.fault.empty() ? passed : outside);
    }
  }
  if (args.write) write_list(args.list, list);
  if (passed + failed + outside == 0) throw Error(ErrorCode::kUsage, "there are no cases");
  // The form of Catch2, which tools/test.py counts.
  std::printf("test cases: %zu | %zu passed | %zu failed | %zu skipped\n",
              passed + failed + outside, passed, failed, outside);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace trainrt::conformance

int main(int argc, char** argv) {
  trainrt::conformance::Arguments args;
  CLI::App app("Holds trainrt against ONNX's backend tests");
  app.add_option("--data", args.data, "Folder of kinds of cases")->required();
  app.add_option("--list", args.list, "Cases out of scope")->required();
  app.add_option("--differences", args.differences, "Cases whose outputs are not to be followed");
  app.add_option("--only", args.only, "Shell pattern for KIND/CASE");
  app.add_option("--jobs", args.jobs, "Processes")->check(CLI::Range(1, 256));
  app.add_flag("--write", args.write, "Write the list instead of checking against it");
  app.add_flag("--verbose", args.verbose, "A line for every case");
  CLI11_PARSE(app, argc, argv);
  try {
    return trainrt::conformance::run(args);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "onnx_backend_test: %s\n", e.what());
    return 2;
  }
}
