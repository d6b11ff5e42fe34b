// TfIdfVectorizer over integers: n-grams are compared at every place.
#include <algorithm>
#include <set>

#include "frontend/lower_util.h"

namespace trainrt::lowering {
namespace {

struct Pool {
  std::vector<int64_t> items, starts, places;  // n-grams by length, and their coordinates
  int64_t shortest, longest, skips, size;      // size: of the output
  std::vector<double> weights;                 // by n-gram; empty: all 1
};

Pool pool_of(LowerContext& c) {
  if (c.has_attr("pool_strings")) c.refuse("no_lowering", "n-grams of strings");
  Pool p{c.attr_ints("pool_int64s"),
         c.attr_ints("ngram_counts"),
         c.attr_ints("ngram_indexes"),
         c.attr_int("min_gram_length"),
         c.attr_int("max_gram_length"),
         c.attr_int("max_skip_count"),
         0,
         c.attr_floats("weights", {})};
  if (p.shortest < 1 || p.longest < p.shortest || p.skips < 0 || p.places.empty()) {
    c.invalid("there are no n-grams of these lengths, skips and coordinates");
  }
  const auto [low, high] = std::minmax_element(p.places.begin(), p.places.end());
  if (*low < 0 || *high >= kMaxConstant) c.invalid("a coordinate of ngram_indexes is out of reach");
  p.size = *high + 1;
  if (!p.weights.empty() && p.weights.size() != p.places.size()) {
    c.invalid(std::to_string(p.weights.size()) + " weights for " + std::to_string(p.places.size()) +
              " n-grams");
  }
  p.starts.push_back(static_cast<int64_t>(p.items.size()));
  if (p.starts[0] < 0 || !std::is_sorted(p.starts.begin(), p.starts.end())) {
    c.invalid("ngram_counts does not divide the pool");
  }
  return p;
}

/// n-grams of one length: item k of n-gram i is items[i * n + k].
struct Grams {
  int64_t n, count;
  std::span<const int64_t> items, places;
  std::span<const double> weights;
};

std::vector<Grams> grams_of(LowerContext& c, const Pool& p) {
  std::vector<Grams> all;
  size_t first = 0;
  for (size_t i = 0; i + 1 < p.starts.size(); ++i) {
    const auto n = static_cast<int64_t>(i + 1);
    const int64_t items = p.starts[i + 1] - p.starts[i], count = items / n;
    if (items % n != 0 || first + at(count) > p.places.size()) {
      c.invalid("ngram_counts and ngram_indexes do not fit the pool");
    }
    const Grams g{n, count, std::span(p.items).subspan(at(p.starts[i]), at(items)),
                  std::span(p.places).subspan(first, at(count)),
                  p.weights.empty() ? std::span<const double>()
                                    : std::span(p.weights).subspan(first, at(count))};
    first += at(count);
    if (count > 0 && n >= p.shortest && n <= p.longest) all.push_back(g);
  }
  return all;
}

void check_distinct(LowerContext& c, const Grams& g) {
  std::set<std::vector<int64_t>> seen;
  for (int64_t i = 0; i < g.count; ++i) {
    const auto item = g.items.subspan(at(i * g.n), at(g.n));
    if (!seen.emplace(item.begin(), item.end()).second) c.invalid("the pool repeats an n-gram");
  }
}

/// How often each n-gram occurs with its items `stride` apart in the rows of x: [rows, count].
Var occurrences(LowerContext& c, Var x, const Grams& g, int64_t stride) {
  const int64_t windows = x.dim(1) - stride * (g.n - 1);
  constexpr double kLargest = 1 << 30;  // bytes
  if (static_cast<double>(x.dim(0)) * static_cast<double>(windows) *
          static_cast<double>(g.count * 8) >
      kLargest) {
    c.refuse("memory", "comparing " + std::to_string(g.count) + " n-grams with " +
                           std::to_string(windows) + " places takes more than 1 GiB");
  }
  Var match;
  for (int64_t k = 0; k < g.n; ++k) {
    std::vector<int64_t> column;
    for (int64_t i = 0; i < g.count; ++i) column.push_back(g.items[at(i * g.n + k)]);
    const Var hit = equal(unsqueeze(slice(x, 1, k * stride, windows), {2}),
                          c.b.constant(Tensor::of_ints(column)));
    match = match ? logical_and(match, hit) : hit;
  }
  return reduce_sum(cast(match, c.working), {1});
}

/// Values by n-gram, added up by coordinate.
Var placed(LowerContext& c, Var values, const Grams& g, int64_t size) {
  return c.b.add(Op::kGatherGrad, {values, c.b.constant(Tensor::of_ints(g.places))},
                 GatherGradAttrs{1, {values.dim(0), size}});
}

Var weights_of(LowerContext& c, const Grams& g) {
  return c.b.constant(Tensor::from<double>(g.weights, {1, g.count}).to(c.working));
}

void check_unshared(LowerContext& c, std::vector<int64_t> places) {
  std::sort(places.begin(), places.end());
  if (std::adjacent_find(places.begin(), places.end()) != places.end()) {
    c.refuse("no_lowering", "IDF with weights of n-grams that share a coordinate");
  }
}

// TF: counts; IDF: weights of what occurs; TFIDF: counts times weights.
void lower_tf_idf(LowerContext& c) {
  const Var given = c.need(0);
  const std::string mode = c.attr_string("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    c.invalid("mode is TF, IDF or TFIDF, not '" + mode + "'");
  }
  if (given.rank() < 1 || given.rank() > 2 || is_float(given.dtype())) {
    c.invalid("the input holds integers and is [C] or [N,C], given " + to_string(given.type()));
  }
  const Pool pool = pool_of(c);
  const bool weighted = mode != "TF" && !pool.weights.empty(), binary = mode == "IDF";
  if (weighted && binary) check_unshared(c, pool.places);
  const Var wide = cast(given, DType::kInt64);
  const Var x = wide.rank() == 1 ? unsqueeze(wide, {0}) : wide;

  Var y = c.b.fill(c.working, 0, {x.dim(0), pool.size});
  for (const Grams& g : grams_of(c, pool)) {
    check_distinct(c, g);
    // The items of a 1-gram have no distance.
    const int64_t skips = g.n == 1 ? 0 : pool.skips;
    for (int64_t stride = 1; stride - 1 <= skips; ++stride) {
      if (stride > x.dim(1) || x.dim(1) - stride * (g.n - 1) < 1) break;
      Var count = occurrences(c, x, g, stride);
      if (weighted && !binary) count = count * weights_of(c, g);
      y = y + placed(c, count, g, pool.size);
    }
  }
  if (binary) y = clip(y, 0, 1);
  if (weighted && binary) {
    Tensor factors(DType::kFloat64, {pool.size});
    for (size_t i = 0; i < pool.places.size(); ++i) {
      factors.data<double>()[at(pool.places[i])] = pool.weights[i];
    }
    y = y * c.b.constant(factors.to(c.working));
  }
  c.set(given.rank() == 1 ? squeeze(y, {0}) : y);
}

constexpr LoweringRow kRows[] = {
    {"", "TfIdfVectorizer", 9, lower_tf_idf, GradInputs::kNone, "n-grams of strings"}};

}  // namespace

std::span<const LoweringRow> tf_idf_lowerings() { return kRows; }

}  // namespace trainrt::lowering
