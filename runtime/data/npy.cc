#include "runtime/data/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "runtime/data/file.h"
#include "runtime/data/zip.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

/// The header's Python dictionary: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& what) : text_(text), what_(what) {}

  void parse() {
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        if (peek() == '[') fail("it holds records; only plain arrays can be read");
        descr = quoted();
      } else if (key == "fortran_order") {
        fortran = boolean();
      } else if (key == "shape") {
        tuple();
      } else {
        fail("unknown key '" + key + "' in its header");
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (descr.empty() || !has_shape) fail("its header names no type or shape");
  }

  std::string descr;
  bool fortran = false, has_shape = false;
  Shape shape;

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::kFile, what_ + ": " + why);
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("broken .npy header: '") + c + "' expected");
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("broken .npy header: a string expected");
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail("broken .npy header: unclosed string");
    const std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }
  bool boolean() {
    peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    fail("broken .npy header: True or False expected");
  }
  void tuple() {
    has_shape = true;
    expect('(');
    while (!take(')')) {
      peek();
      int64_t dim = 0;
      const auto [end, error] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0) fail("broken .npy header: bad shape");
      if (shape.size() == 64) fail("broken .npy header: more than 64 dims");
      shape.push_back(dim);
      at_ = static_cast<size_t>(end - text_.data());
      take('L');  // written by Python 2
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  const std::string& what_;
  size_t at_ = 0;
};

struct DescrRow {
  std::string_view code;
  DType dtype;
};
constexpr DescrRow kDescr[] = {
    {"f4", DType::kFloat32}, {"f8", DType::kFloat64}, {"f2", DType::kFloat16},
    {"i1", DType::kInt8},    {"i2", DType::kInt16},   {"i4", DType::kInt32},
    {"i8", DType::kInt64},   {"u1", DType::kUInt8},   {"u2", DType::kUInt16},
    {"u4", DType::kUInt32},  {"u8", DType::kUInt64},  {"b1", DType::kBool},
    {"V2", DType::kBFloat16}};

DType parse_descr(const std::string& descr, const std::string& what) {
  const bool prefixed = !descr.empty() && std::string_view("<>|=").find(descr[0]) < 4;
  const std::string_view code = std::string_view(descr).substr(prefixed ? 1 : 0);
  for (const DescrRow& row : kDescr) {
    if (row.code == code) return row.dtype;
  }
  const char kind = code.empty() ? '?' : code[0];
  const std::string why = kind == 'U' || kind == 'S'   ? "text"
                          : kind == 'c'                ? "complex numbers"
                          : kind == 'O'                ? "Python objects"
                          : kind == 'M' || kind == 'm' ? "times"
                                                       : "type '" + descr + "'";
  throw Error(ErrorCode::kFile, what + " holds " + why + "; numbers and bools can be read");
}

void swap_bytes(Tensor& t) {
  const size_t width = dtype_size(t.dtype());
  char* at = static_cast<char*>(t.raw());
  for (int64_t i = 0; i < t.size(); ++i, at += width) std::reverse(at, at + width);
}

int64_t count_of(const Shape& shape, const std::string& what) {
  try {
    return element_count(shape);
  } catch (const Error& error) {
    throw Error(ErrorCode::kFile, what + ": " + error.what());
  }
}

/// What NumPy has a type for.
Tensor storable(const Tensor& array, const std::string& what) {
  if (!array.defined()) throw Error(ErrorCode::kInput, what + ": the tensor is undefined");
  return array.dtype() == DType::kBFloat16 ? array.to(DType::kFloat32) : array;
}

std::string_view bytes_of(const Tensor& t) {
  return {static_cast<const char*>(t.raw()), t.bytes()};
}

Tensor from_fortran(const Tensor& t, const Shape& shape) {
  Tensor out(t.dtype(), shape);
  const size_t width = dtype_size(t.dtype());
  const size_t rank = shape.size();
  std::vector<int64_t> index(rank, 0), stride(rank, 1);
  for (size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * shape[d - 1];
  const char* from = static_cast<const char*>(t.raw());
  char* to = static_cast<char*>(out.raw());
  int64_t at = 0;
  for (int64_t i = 0; i < out.size(); ++i, to += width) {
    std::memcpy(to, from + static_cast<size_t>(at) * width, width);
    for (size_t d = rank; d-- > 0;) {
      at += stride[d];
      if (++index[d] < shape[d]) break;
      at -= stride[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Tensor parse_npy(std::string_view bytes, const std::string& what) {
  const auto fail = [&](const std::string& why) { throw Error(ErrorCode::kFile, what + why); };
  if (bytes.size() < 10 || !bytes.starts_with(kMagic)) fail(" is not an .npy array");
  const int version = bytes[6];
  if (version < 1 || version > 3) fail(": unknown .npy version " + std::to_string(version));
  uint32_t length = 0;
  const size_t width = version == 1 ? 2 : 4;
  if (bytes.size() < 8 + width) fail(": cut off in its header");
  std::memcpy(&length, bytes.data() + 8, width);
  if (length > bytes.size() - 8 - width) fail(": cut off in its header");
  HeaderParser header(bytes.substr(8 + width, length), what);
  header.parse();
  bytes.remove_prefix(8 + width + length);

  const DType dtype = parse_descr(header.descr, what);
  const auto count = static_cast<uint64_t>(count_of(header.shape, what));
  if (count > bytes.size() / dtype_size(dtype)) {
    fail(": shape " + to_string(header.shape) + " needs more data than the file holds");
  }
  Tensor out(dtype, header.shape);
  if (out.bytes() > 0) std::memcpy(out.raw(), bytes.data(), out.bytes());
  if (header.descr[0] == '>') swap_bytes(out);
  if (dtype == DType::kBool) {
    auto* values = static_cast<uint8_t*>(out.raw());
    for (int64_t i = 0; i < out.size(); ++i) values[i] = values[i] != 0;
  }
  return header.fortran && out.rank() > 1 ? from_fortran(out, header.shape) : out;
}

std::string npy_header(DType dtype, const Shape& shape) {
  std::string_view code = "f4";
  for (const DescrRow& row : kDescr) {
    if (row.dtype == dtype && dtype != DType::kBFloat16) code = row.code;
  }
  std::string dict = "{'descr': '";
  dict += dtype_size(dtype) == 1 ? '|' : '<';
  dict += code;
  dict += "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i) {
    dict += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  dict += shape.size() == 1 ? ",), }" : "), }";
  dict.append(63 - (dict.size() + 10) % 64, ' ');
  dict += '\n';
  std::string out(kMagic);
  out +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return out + dict;
}

Tensor read_npy(const std::string& path) { return parse_npy(read_file(path), "'" + path + "'"); }

void write_npy(const std::string& path, const Tensor& array) {
  const Tensor t = storable(array, "'" + path + "'");
  OutputFile file(path);
  file.write(npy_header(t.dtype(), t.shape()));
  file.write(bytes_of(t));
  file.commit();
}

std::map<std::string, Tensor> read_npz(const std::string& path) {
  const ZipReader zip(path);
  std::map<std::string, Tensor> out;
  for (const ZipEntry& entry : zip.entries()) {
    std::string name = entry.name;
    if (name.ends_with('/')) continue;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    out[name] = parse_npy(zip.read(entry), "'" + path + "', array '" + name + "'");
  }
  return out;
}

void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& arrays) {
  ZipWriter zip(path);
  for (const auto& [name, array] : arrays) {
    const Tensor t = storable(array, "'" + path + "', array '" + name + "'");
    const std::string header = npy_header(t.dtype(), t.shape());
    const std::string_view parts[] = {header, bytes_of(t)};
    zip.add(name + ".npy", parts);
  }
  zip.finish();
}

}  // namespace trainrt
