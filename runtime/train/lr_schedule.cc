#include "runtime/train/lr_schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr std::pair<std::string_view, ScheduleKind> kNames[] = {
    {"constant", ScheduleKind::kConstant},       {"linear", ScheduleKind::kLinear},
    {"cosine", ScheduleKind::kCosine},           {"step", ScheduleKind::kStep},
    {"exponential", ScheduleKind::kExponential}, {"onecycle", ScheduleKind::kOneCycle},
};

[[noreturn]] void usage(const std::string& text, const std::string& what) {
  throw Error(ErrorCode::kUsage, "schedule '" + text + "': " + what);
}

double parse_number(const std::string& text, const std::string& key, const std::string& value) {
  double number = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || stop != value.data() + value.size() || !std::isfinite(number) ||
      number < 0) {
    usage(text, key + " must be a number of 0 or more, not '" + value + "'");
  }
  return number;
}

int64_t parse_count(const std::string& text, const std::string& key, const std::string& value) {
  const double number = parse_number(text, key, value);
  if (number != std::floor(number) || number > 1e15) {
    usage(text, key + " must be a whole number, not '" + value + "'");
  }
  return static_cast<int64_t>(number);
}

// From a at t = 0 to b at t = 1.
double cosine_between(double a, double b, double t) {
  return b + (a - b) * (1 + std::cos(std::numbers::pi * t)) / 2;
}

}  // namespace

double LrSchedule::factor(int64_t update) const {
  if (kind == ScheduleKind::kOneCycle) {
    const double last = static_cast<double>(std::max<int64_t>(total - 1, 1));
    const double s = std::min(static_cast<double>(update), last);
    const double top = pct * static_cast<double>(total) - 1, low = 1 / div;
    if (s <= top) return cosine_between(low, 1, top > 0 ? s / top : 1);
    return cosine_between(1, low / final_div, last > top ? (s - top) / (last - top) : 1);
  }
  if (update < warmup) return static_cast<double>(update + 1) / static_cast<double>(warmup);
  const double s = static_cast<double>(update - warmup);
  const double t = total > warmup ? std::min(s / static_cast<double>(total - warmup), 1.0) : 1.0;
  switch (kind) {
    case ScheduleKind::kLinear:
      return 1 - t * (1 - end);
    case ScheduleKind::kCosine:
      return cosine_between(1, end, t);
    case ScheduleKind::kStep:
      return std::pow(gamma, std::floor(s / static_cast<double>(size)));
    case ScheduleKind::kExponential:
      return std::pow(gamma, s / static_cast<double>(size));
    default:
      return 1;
  }
}

LrSchedule parse_schedule(const std::string& text, int64_t total_steps) {
  LrSchedule schedule;
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  bool known = false;
  std::string names;
  for (const auto& [candidate, kind] : kNames) {
    names += (names.empty() ? "" : ", ") + std::string(candidate);
    if (candidate != name) continue;
    schedule.kind = kind;
    known = true;
  }
  if (!known) usage(text, "there is no schedule '" + name + "'; known: " + names);
  if (schedule.kind == ScheduleKind::kExponential) schedule.gamma = 0.999;
  schedule.total = total_steps;

  double warmup_share = -1;
  for (size_t begin = colon == std::string::npos ? text.size() : colon + 1; begin < text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, comma - begin);
    begin = comma + 1;
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) usage(text, "'" + pair + "' is not of the form key=value");
    const std::string key = pair.substr(0, equals), value = pair.substr(equals + 1);
    if (key == "warmup" && value.find('.') != std::string::npos) {
      warmup_share = parse_number(text, key, value);
      if (warmup_share >= 1) usage(text, "warmup as a share of the run must be below 1");
    } else if (key == "warmup") {
      schedule.warmup = parse_count(text, key, value);
    } else if (key == "total") {
      schedule.total = parse_count(text, key, value);
    } else if (key == "end") {
      schedule.end = parse_number(text, key, value);
    } else if (key == "gamma") {
      schedule.gamma = parse_number(text, key, value);
    } else if (key == "size") {
      schedule.size = parse_count(text, key, value);
      if (schedule.size == 0) usage(text, "size must be 1 or more");
    } else if (key == "pct") {
      schedule.pct = parse_number(text, key, value);
      if (schedule.pct > 1) usage(text, "pct must be 1 or less");
    } else if (key == "div") {
      schedule.div = parse_number(text, key, value);
    } else if (key == "final_div") {
      schedule.final_div = parse_number(text, key, value);
    } else {
      usage(text, "there is no key '" + key +
                      "'; known: warmup, total, end, gamma, size, pct, div, final_div");
    }
  }
  if (!(schedule.div > 0) || !(schedule.final_div > 0)) usage(text, "divisors must be above 0");
  const bool spans = schedule.kind == ScheduleKind::kLinear ||
                     schedule.kind == ScheduleKind::kCosine ||
                     schedule.kind == ScheduleKind::kOneCycle || warmup_share >= 0 ||
                     (schedule.kind == ScheduleKind::kStep && schedule.size == 0);
  if (spans && schedule.total <= 0) {
    usage(text, "the number of steps of the run must be known: give total=…");
  }
  if (warmup_share >= 0) {
    schedule.warmup = std::llround(warmup_share * static_cast<double>(schedule.total));
  }
  if (schedule.size == 0) {
    schedule.size =
        schedule.kind == ScheduleKind::kStep ? std::max<int64_t>(schedule.total / 3, 1) : 1;
  }
  return schedule;
}

}  // namespace trainrt
