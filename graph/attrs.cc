#include "graph/attrs.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "graph/attr_fields.h"

namespace trainrt {
namespace {

constexpr int64_t kDigestAbove = 16;

size_t mix(size_t seed, uint64_t v) {
  v *= 0x9E3779B97F4A7C15u;
  v ^= v >> 32;
  return (seed ^ v) * 0x100000001B3u;
}

// Zeros of different sign are different: 1/x tells them apart.
template <typename T>
bool same_number(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

bool same(double a, double b) { return same_number(a, b); }
bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape() || a.defined() != b.defined()) return false;
  if (a.raw() == b.raw() || a.bytes() == 0) return true;
  if (std::memcmp(a.raw(), b.raw(), a.bytes()) == 0) return true;
  bool equal = false;
  with_float_type(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto x = a.data<T>(), y = b.data<T>();
    equal = std::equal(x.begin(), x.end(), y.begin(), same_number<T>);
  });
  return equal;
}
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same_number<double>);
}
template <typename T>
bool same(const T& a, const T& b) {
  return a == b;
}

uint64_t bits(double v) { return std::isnan(v) ? 0x7FF8000000000000u : std::bit_cast<uint64_t>(v); }

size_t digest(const Tensor& t) {
  size_t h = mix(static_cast<size_t>(t.dtype()), static_cast<uint64_t>(t.size()));
  for (int64_t d : t.shape()) h = mix(h, static_cast<uint64_t>(d));
  if (t.size() == 0) return h;
  const bool as_numbers = with_float_type(t.dtype(), [&](auto zero) {
    for (auto v : t.data<decltype(zero)>()) h = mix(h, bits(static_cast<double>(v)));
  });
  if (as_numbers) return h;
  const auto* bytes = static_cast<const unsigned char*>(t.raw());
  for (size_t i = 0; i < t.bytes(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<size_t>(8, t.bytes() - i));
    h = mix(h, word);
  }
  return h;
}

size_t hash_of(const std::string& v) { return std::hash<std::string>()(v); }
size_t hash_of(double v) { return mix(1, bits(v)); }
size_t hash_of(const Tensor& v) { return digest(v); }
template <typename T>
size_t hash_of(const std::vector<T>& v) {
  size_t h = v.size();
  for (const T& x : v) h = mix(h, hash_of(x));
  return h;
}
template <typename T>
requires std::is_integral_v<T> || std::is_enum_v<T> size_t hash_of(T v) {
  return mix(2, static_cast<uint64_t>(v));
}

template <typename T>
void put_number(std::string& out, T v) {
  char buffer[40];
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(v)) {
      out += "nan";
      return;
    }
  }
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  out.append(buffer, end);
}

struct Printer {
  std::string& out;
  bool full;

  void put(bool v) { out += v ? "true" : "false"; }
  void put(int64_t v) { put_number(out, v); }
  void put(double v) { put_number(out, v); }
  void put(const std::string& v) { out += quote(v); }
  void put(DType v) { out += dtype_name(v); }
  template <typename E>
  requires std::is_enum_v<E>
  void put(E v) {
    if (enum_in_range(v)) {
      out += kEnumNames<E>[static_cast<size_t>(v)];
    } else {
      put_number(out, static_cast<int>(v));
    }
  }
  template <typename T>
  void put(const std::vector<T>& v) {
    out += '[';
    for (size_t i = 0; i < v.size(); ++i) {
      if (i > 0) out += ',';
      put_number(out, v[i]);
    }
    out += ']';
  }
  void put(const Tensor& t) {
    if (!t.defined()) {
      out += "undefined";
      return;
    }
    out += dtype_name(t.dtype());
    out += trainrt::to_string(t.shape());
    if (!full && t.size() > kDigestAbove) {
      char buffer[24];
      out += '#';
      out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, digest(t), 16).ptr);
      return;
    }
    out += '{';
    auto put_all = [&](const Tensor& values) {
      with_type(values.dtype(), [&](auto zero) {
        bool first = true;
        for (auto v : values.data<decltype(zero)>()) {
          if (!first) out += ',';
          first = false;
          if constexpr (std::is_same_v<decltype(zero), bool>) {
            out += v ? '1' : '0';
          } else {
            put_number(out, v);
          }
        }
      });
    };
    const bool half = t.dtype() == DType::kFloat16 || t.dtype() == DType::kBFloat16;
    put_all(half ? t.to(DType::kFloat32) : t);
    out += '}';
  }
};

}  // namespace

std::string quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u == 0x7F) {
      out += "\\x";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

std::vector<std::string> optimizer_slots(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return {};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return {"momentum_buffer"};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return {"exp_avg", "exp_avg_sq"};
  }
  return {};
}

bool equal(const Attrs& a, const Attrs& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using A = std::decay_t<decltype(x)>;
        const A& y = std::get<A>(b);
        return std::apply(
            [&](const auto&... f) { return (same(x.*(f.member), y.*(f.member)) && ...); },
            kFields<A>);
      },
      a);
}

size_t hash(const Attrs& attrs) {
  size_t h = mix(0, attrs.index());
  std::visit(
      [&](const auto& a) {
        for_each_field(a, [&](auto, const auto& v) { h = mix(h, hash_of(v)); });
      },
      attrs);
  return h;
}

std::string to_string(const Attrs& attrs, bool full) {
  std::string out;
  std::visit(
      [&](const auto& a) {
        const std::decay_t<decltype(a)> defaults;
        auto put = [&](const auto& field) {
          const auto& v = a.*(field.member);
          if (same(v, defaults.*(field.member))) return;
          if (!out.empty()) out += ' ';
          out += field.name;
          out += '=';
          Printer{out, full}.put(v);
        };
        std::apply([&](const auto&... field) { (put(field), ...); },
                   kFields<std::decay_t<decltype(a)>>);
      },
      attrs);
  return out;
}

}  // namespace trainrt
