#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "graph/attr_fields.h"
#include "graph/infer.h"
#include "graph/text.h"
#include "graph/text_names.h"

namespace trainrt {
namespace {

Attrs default_attrs(Op op) {
  switch (op) {
#define OP(name, min_in, max_in, outputs, attributes) \
  case Op::k##name:                                   \
    return attributes{};
#include "graph/op_list.def"
#undef OP
  }
  return {};
}

/// Reads one line from left to right.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) {}

  [[noreturn]] void fail(const std::string& expected) const {
    const std::string_view rest = text_.substr(pos_, 40);
    throw Error(ErrorCode::kUsage, "graph text, line " + std::to_string(number_) + ", column " +
                                       std::to_string(pos_ + 1) + ": expected " + expected +
                                       (rest.empty() ? ", found the end of the line"
                                                     : ", found '" + std::string(rest) + "'"));
  }

  bool at_end() {
    skip_space();
    return pos_ == text_.size() || text_.substr(pos_).starts_with("//");
  }
  bool take(char c) {
    skip_space();
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(std::string("'") + c + "'");
  }
  /// Characters of [A-Za-z0-9_.] only.
  std::string_view word(const char* what) {
    return take_while([](char c) { return is_name_char(c) && c != ':' && c != '/' && c != '-'; },
                      what);
  }
  std::string name() {
    skip_space();
    if (pos_ < text_.size() && text_[pos_] == '"') return quoted();
    return std::string(take_while(is_name_char, "a name"));
  }
  std::string quoted() {
    need('"');
    std::string out;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      char c = text_[pos_++];
      if (c == '\\') {
        if (pos_ >= text_.size()) break;
        c = text_[pos_++];
        if (c == 'x') {
          unsigned code = 0;
          const char* begin = text_.data() + pos_;
          if (text_.size() - pos_ < 2 ||
              std::from_chars(begin, begin + 2, code, 16).ptr != begin + 2) {
            fail("two hexadecimal digits");
          }
          pos_ += 2;
          c = static_cast<char>(code);
        }
      }
      out += c;
    }
    if (pos_ >= text_.size()) fail("'\"'");
    ++pos_;
    return out;
  }
  template <typename T>
  T number() {
    skip_space();
    T value{};
    const char* begin = text_.data() + pos_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number");
    pos_ += static_cast<size_t>(end - begin);
    return value;
  }
  template <typename T>
  std::vector<T> list(char open, char close) {
    std::vector<T> out;
    need(open);
    if (take(close)) return out;
    do {
      out.push_back(number<T>());
    } while (take(','));
    need(close);
    return out;
  }
  DType dtype() {
    DType t;
    const std::string_view w = word("an element type");
    if (!parse_dtype(w, &t)) {
      pos_ -= w.size();
      fail("an element type");
    }
    return t;
  }
  TensorType type() {
    const DType t = dtype();
    TensorType out{t, list<int64_t>('[', ']')};
    if (static_cast<int64_t>(out.shape.size()) > kMaxRank) fail("a rank within the limits");
    int64_t count = 1;
    for (int64_t d : out.shape) {
      if (d < 0 || (d > 0 && __builtin_mul_overflow(count, d, &count)) || count > kMaxElements) {
        fail("a shape of sensible size");
      }
    }
    if (out.rank() == 4 && text_.substr(pos_).starts_with("nChw16c")) {
      pos_ += std::string_view("nChw16c").size();
      out.layout = Layout::kNChw16c;
    }
    return out;
  }

  void read(bool& v) {
    const std::string_view w = word("true or false");
    if (w != "true" && w != "false") fail("true or false");
    v = w == "true";
  }
  void read(int64_t& v) { v = number<int64_t>(); }
  void read(double& v) { v = number<double>(); }
  void read(std::string& v) { v = quoted(); }
  void read(DType& v) { v = dtype(); }
  template <typename T>
  void read(std::vector<T>& v) {
    v = list<T>('[', ']');
  }
  template <typename E>
  requires std::is_enum_v<E>
  void read(E& v) {
    const std::string_view w = word("a name");
    for (size_t i = 0; i < std::size(kEnumNames<E>); ++i) {
      if (kEnumNames<E>[i] == w) {
        v = static_cast<E>(i);
        return;
      }
    }
    std::string known;
    for (std::string_view n : kEnumNames<E>) known += (known.empty() ? "" : ", ") + std::string(n);
    fail("one of " + known);
  }
  void read(Tensor& v) {
    const TensorType t = type();
    const bool half = t.dtype == DType::kFloat16 || t.dtype == DType::kBFloat16;
    with_type(half ? DType::kFloat32 : t.dtype, [&](auto zero) {
      using T = decltype(zero);
      using Number = std::conditional_t<std::is_same_v<T, bool>, int, T>;
      const std::vector<Number> values = list<Number>('{', '}');
      if (static_cast<int64_t>(values.size()) != t.size()) {
        fail(std::to_string(t.size()) + " values before this, not " +
             std::to_string(values.size()));
      }
      v = Tensor(dtype_of<T>, t.shape);
      std::copy(values.begin(), values.end(), v.data<T>().begin());
    });
    if (half) v = v.to(t.dtype);
  }

 private:
  void skip_space() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t')) ++pos_;
  }
  template <typename F>
  std::string_view take_while(F accept, const char* what) {
    skip_space();
    const size_t begin = pos_;
    while (pos_ < text_.size() && accept(text_[pos_])) ++pos_;
    if (pos_ == begin) fail(what);
    return text_.substr(begin, pos_ - begin);
  }

  std::string_view text_;
  int number_;
  size_t pos_ = 0;
};

Attrs attributes(Line& in, Op op) {
  Attrs attrs = default_attrs(op);
  std::unordered_set<std::string> seen;
  while (!in.at_end()) {
    const std::string key(in.word("an attribute"));
    in.need('=');
    bool found = false;
    std::visit(
        [&](auto& a) {
          for_each_field(a, [&](std::string_view name, auto& field) {
            if (name != key) return;
            found = true;
            in.read(field);
          });
        },
        attrs);
    if (!found) in.fail("an attribute of " + std::string(op_info(op).name) + ", not " + key);
    if (!seen.insert(key).second) in.fail("each attribute once, not again " + key);
  }
  return attrs;
}

class Parser {
 public:
  void line(Line in) {
    if (in.at_end()) return;
    if (in.take('%')) {
      node(in);
      return;
    }
    const std::string_view word = in.word("'%', 'return' or a section");
    if (word == "return") {
      output(in);
      return;
    }
    for (size_t i = 0; i < std::size(kSectionNames); ++i) {
      if (word != kSectionNames[i]) continue;
      in.need(':');
      section_ = static_cast<Section>(i);
      if (!in.at_end()) in.fail("the end of the line");
      return;
    }
    in.fail("'%', 'return' or a section");
  }

  Graph take() { return std::move(graph_); }

 private:
  // The '%' has been read.
  ValueId value(Line& in) {
    const std::string_view name = in.word("the name of a value");
    const auto it = values_.find(std::string(name));
    if (it == values_.end()) in.fail("a value defined above, not %" + std::string(name));
    return it->second;
  }

  void node(Line& in) {
    std::vector<std::string> names;
    std::vector<TensorType> types;
    do {
      if (!names.empty()) in.need('%');
      names.emplace_back(in.word("the name of a value"));
      if (in.take(':')) types.push_back(in.type());
    } while (in.take(','));
    in.need('=');
    Op op;
    const std::string op_name(in.word("an op"));
    if (!parse_op(op_name, &op)) in.fail("a known op, not " + op_name);

    std::vector<ValueId> inputs;
    std::vector<TensorType> input_types;
    in.need('(');
    if (!in.take(')')) {
      do {
        in.need('%');
        inputs.push_back(value(in));
        input_types.push_back(graph_.type(inputs.back()));
      } while (in.take(','));
      in.need(')');
    }
    Attrs attrs = attributes(in, op);
    if (types.empty()) {
      try {
        types = infer_types(op, input_types, attrs);
      } catch (const Error& e) {
        in.fail("a well-formed " + op_name + " (" + e.what() + ")");
      }
    }
    if (types.size() != names.size()) in.fail(std::to_string(types.size()) + " result(s)");
    const NodeId id =
        graph_.add_node(op, std::move(inputs), std::move(attrs), std::move(types), section_);
    for (size_t i = 0; i < names.size(); ++i) {
      if (!values_.emplace(names[i], graph_.node(id).outputs[i]).second) {
        in.fail("a new name, %" + names[i] + " is taken");
      }
    }
  }

  void output(Line& in) {
    while (!in.at_end()) {
      std::string name = in.name();
      in.need('=');
      in.need('%');
      const ValueId id = value(in);
      graph_.add_output(std::move(name), id);
      if (in.at_end()) return;
      Line ahead = in;
      if (ahead.name() != "role") continue;
      ahead.need('=');
      if (ahead.take('%')) continue;  // an output that is called role
      const std::string_view role = ahead.word("the role of an output");
      size_t i = 0;
      while (i < std::size(kOutputRoleNames) && kOutputRoleNames[i] != role) ++i;
      if (i == std::size(kOutputRoleNames)) ahead.fail("output, loss, gradient or state");
      graph_.outputs().back().role = static_cast<OutputRole>(i);
      in = ahead;
    }
  }

  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;
  Section section_ = Section::kForward;
};

}  // namespace

Attrs parse_attributes(Op op, std::string_view text) {
  Line line(text, 1);
  return attributes(line, op);
}

Graph parse_graph(std::string_view text) {
  Parser parser;
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    parser.line(Line(line, ++number));
  }
  return parser.take();
}

}  // namespace trainrt
