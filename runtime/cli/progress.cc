#include "runtime/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "runtime/cli/report.h"

namespace trainrt::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string summary(const EpochInfo& e) {
  std::string text = "loss " + readable(e.loss);
  if (e.val_loss) text += "  val_loss " + readable(*e.val_loss);
  if (e.val_accuracy) text += "  val_accuracy " + readable(*e.val_accuracy);
  for (const auto& [name, value] : e.metrics) text += "  val_" + name + " " + readable(value);
  return text + "  " + readable(e.samples_per_s) + " samples/s";
}

class JsonProgress final : public Progress {
 public:
  explicit JsonProgress(int64_t log_every) : log_every_(log_every) {}
  void start(const StartInfo& s) override {
    print_json({{"event", "start"},
                {"parameters", s.parameters},
                {"trainable", s.trainable},
                {"arena_bytes", s.arena_bytes},
                {"recomputed_values", s.recomputed_values},
                {"recomputed_bytes", s.recomputed_bytes},
                {"recomputed_flops", s.recomputed_flops},
                {"plan_ms", s.plan_ms},
                {"steps_done", s.first_step},
                {"steps", s.total_steps}});
  }
  void step(const StepInfo& s) override {
    if (s.step != 1 && s.step % log_every_ != 0) return;
    print_json({{"event", "step"},
                {"step", s.step},
                {"epoch", s.epoch},
                {"loss", s.loss},
                {"lr", s.lr},
                {"samples_per_s", s.samples_per_s}});
  }
  void epoch(const EpochInfo& e) override {
    Json line = {{"event", "epoch"}, {"epoch", e.epoch}, {"loss", e.loss}};
    line["val_loss"] = e.val_loss ? Json(*e.val_loss) : Json();
    line["val_accuracy"] = e.val_accuracy ? Json(*e.val_accuracy) : Json();
    for (const auto& [name, value] : e.metrics) line["val_" + name] = value;
    print_json(line);
  }
  void done(const DoneInfo& d) override {
    Json line = {{"event", "done"},
                 {"steps", d.steps},
                 {"loss", d.loss},
                 {"seconds", d.seconds},
                 {"peak_rss_bytes", peak_rss_bytes()}};
    if (d.interrupted) line["interrupted"] = true;
    print_json(line);
  }

 private:
  int64_t log_every_;
};

class LineProgress : public Progress {
 public:
  void start(const StartInfo& s) override {
    info_ = s;
    std::printf("%s parameters, %s trained; arena %s, planned in %.0f ms\n",
                with_commas(s.parameters).c_str(), with_commas(s.trainable).c_str(),
                readable_bytes(static_cast<double>(s.arena_bytes)).c_str(), s.plan_ms);
    if (s.first_step > 0) {
      std::printf("resumed after step %s\n", with_commas(s.first_step).c_str());
    }
    std::fflush(stdout);
  }
  void step(const StepInfo&) override {}
  void epoch(const EpochInfo& e) override {
    std::printf("epoch %ld%s  step %ld  %s\n", e.epoch,
                info_.epochs > 0 ? ("/" + std::to_string(info_.epochs)).c_str() : "", e.step,
                summary(e).c_str());
    std::fflush(stdout);
  }
  void done(const DoneInfo& d) override {
    std::printf("%s after %ld steps in %s  loss %s  peak memory %s\n",
                d.interrupted ? "interrupted" : "done", d.steps, readable_time(d.seconds).c_str(),
                readable(d.loss).c_str(),
                readable_bytes(static_cast<double>(peak_rss_bytes())).c_str());
    std::fflush(stdout);
  }

 protected:
  StartInfo info_;
};

/// The bar is redrawn in place, at most ten times a second.
class TerminalProgress final : public LineProgress {
 public:
  void start(const StartInfo& s) override {
    LineProgress::start(s);
    begin_ = Clock::now();
  }
  void step(const StepInfo& s) override {
    const bool last = s.batch == info_.batches || s.step == info_.total_steps;
    if (!last && seconds_since(drawn_) < 0.1) return;
    drawn_ = Clock::now();
    const auto done = static_cast<double>(s.step - info_.first_step);
    const double left = seconds_since(begin_) / std::max(done, 1.0) *
                        static_cast<double>(info_.total_steps - s.step);
    std::string head = "epoch " + std::to_string(s.epoch);
    if (info_.epochs > 0) head += "/" + std::to_string(info_.epochs);
    std::string tail = " step " + std::to_string(s.step) + "/" + std::to_string(info_.total_steps) +
                       "  loss " + readable(s.loss) + metric_ + "  " + readable(s.samples_per_s) +
                       " samples/s  " + readable_time(left) + " left";
    winsize window{};
    ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
    const int columns = window.ws_col > 0 ? window.ws_col : 80;
    const int width = std::clamp(columns - static_cast<int>(head.size() + tail.size()) - 5, 0, 40);
    const double share = static_cast<double>(s.batch) / static_cast<double>(info_.batches);
    std::string line = head + (width > 4 ? " " + bar(share, width) : "") + tail;
    if (line.size() >= static_cast<size_t>(columns)) line.resize(static_cast<size_t>(columns) - 1);
    std::printf("\r%s\x1b[K", line.c_str());
    std::fflush(stdout);
    drawing_ = true;
  }
  void epoch(const EpochInfo& e) override {
    clear();
    metric_ = e.val_accuracy ? "  val_accuracy " + readable(*e.val_accuracy) : "";
    LineProgress::epoch(e);
  }
  void done(const DoneInfo& d) override {
    clear();
    LineProgress::done(d);
  }

 private:
  void clear() {
    if (drawing_) std::printf("\r\x1b[K");
    drawing_ = false;
  }

  Clock::time_point begin_ = Clock::now(), drawn_;
  std::string metric_;
  bool drawing_ = false;
};

}  // namespace

std::string bar(double share, int width) {
  const int inside = std::max(width - 2, 1);
  const int full = std::clamp(static_cast<int>(share * inside), 0, inside);
  std::string text(static_cast<size_t>(full), '=');
  if (full < inside) text += '>';
  text.resize(static_cast<size_t>(inside), ' ');
  return "[" + text + "]";
}

std::unique_ptr<Progress> make_progress(bool json, int64_t log_every) {
  if (json) return std::make_unique<JsonProgress>(log_every);
  if (::isatty(STDOUT_FILENO)) return std::make_unique<TerminalProgress>();
  return std::make_unique<LineProgress>();
}

}  // namespace trainrt::cli
