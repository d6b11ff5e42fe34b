#include "runtime/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "runtime/data/file.h"
#include "trainrt/error.h"

namespace trainrt {
namespace {

std::optional<double> number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& what) : text_(text), what_(what) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // byte order mark
    const std::string_view first = text_.substr(0, text_.find('\n'));
    if (first.find(',') == std::string_view::npos) {
      if (first.find(';') != std::string_view::npos) separator_ = ';';
      if (first.find('\t') != std::string_view::npos) separator_ = '\t';
    }
  }

  CsvTable parse() {
    CsvTable table;
    while (at_ < text_.size()) {
      const int64_t line = line_;
      std::vector<std::string> row = next_row();
      if (row.size() == 1 && row[0].empty()) continue;  // an empty line
      if (!table.rows.empty() && row.size() != table.rows[0].size()) {
        throw Error(ErrorCode::kFile, what_ + ", line " + std::to_string(line) + ": " +
                                          std::to_string(table.rows[0].size()) +
                                          " fields expected, found " + std::to_string(row.size()));
      }
      table.rows.push_back(std::move(row));
      table.lines.push_back(line);
    }
    return table;
  }

 private:
  std::vector<std::string> next_row() {
    std::vector<std::string> row(1);
    const int64_t start = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && row.back().empty()) {
        quoted(&row.back(), start);
      } else if (c == separator_) {
        row.emplace_back();
      } else if (c == '\n') {
        ++line_;
        break;
      } else if (c != '\r') {
        row.back() += c;
      }
    }
    return row;
  }

  void quoted(std::string* field, int64_t start) {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c != '"') {
        *field += c;
      } else if (at_ < text_.size() && text_[at_] == '"') {
        *field += text_[at_++];
      } else {
        return;
      }
    }
    throw Error(ErrorCode::kFile, what_ + ", line " + std::to_string(start) + ": unclosed quote");
  }

  std::string_view text_;
  const std::string& what_;
  char separator_ = ',';
  size_t at_ = 0;
  int64_t line_ = 1;
};

bool has_header(const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return false;
  bool any_number = false;
  for (size_t c = 0; c < rows[0].size(); ++c) {
    if (number(rows[0][c])) {
      any_number = true;
    } else if (rows.size() > 1 && number(rows[1][c])) {
      return true;
    }
  }
  return !any_number;
}

/// Index of the target column; the number of columns when there is none.
size_t find_target(const CsvTable& table, size_t columns, const std::string& wanted,
                   const std::string& what) {
  if (wanted == "none") return columns;
  if (wanted.empty()) return columns - 1;
  const auto named = std::find(table.header.begin(), table.header.end(), wanted);
  if (named != table.header.end()) return static_cast<size_t>(named - table.header.begin());
  int64_t index = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
  if (error == std::errc() && end == wanted.data() + wanted.size()) {
    if (index < 0) index += static_cast<int64_t>(columns);
    if (index >= 0 && static_cast<size_t>(index) < columns) return static_cast<size_t>(index);
  }
  std::string names;
  for (const std::string& name : table.header) names += (names.empty() ? "" : ", ") + name;
  throw Error(ErrorCode::kUsage, "--target-column '" + wanted + "': " + what + " has " +
                                     std::to_string(columns) + " columns" +
                                     (names.empty() ? " and no header" : ": " + names));
}

Tensor class_ids(const CsvTable& table, size_t column, std::vector<std::string>* classes,
                 const std::string& what) {
  const bool fixed = !classes->empty();
  if (!fixed) {
    for (const auto& row : table.rows) classes->push_back(row[column]);
    std::sort(classes->begin(), classes->end());
    classes->erase(std::unique(classes->begin(), classes->end()), classes->end());
  }
  Tensor out(DType::kInt64, {static_cast<int64_t>(table.rows.size())});
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const auto at = std::lower_bound(classes->begin(), classes->end(), table.rows[r][column]);
    if (at == classes->end() || *at != table.rows[r][column]) {
      throw Error(ErrorCode::kInput, what + ", line " + std::to_string(table.lines[r]) +
                                         ": class '" + table.rows[r][column] +
                                         "' does not occur in the training data");
    }
    out.data<int64_t>()[r] = at - classes->begin();
  }
  return out;
}

}  // namespace

CsvTable parse_csv(std::string_view text, const std::string& what) {
  CsvTable table = CsvParser(text, what).parse();
  if (has_header(table.rows)) {
    table.header = std::move(table.rows.front());
    table.rows.erase(table.rows.begin());
    table.lines.erase(table.lines.begin());
  }
  return table;
}

std::unique_ptr<Dataset> open_csv(const std::string& path, const DataOptions& options) {
  const std::string what = "'" + path + "'";
  const CsvTable table = parse_csv(read_file(path), what);
  if (table.rows.empty()) throw Error(ErrorCode::kFile, what + " holds no rows of data");
  const size_t columns = table.rows[0].size();
  const size_t target = find_target(table, columns, options.target_column, what);
  const auto rows = static_cast<int64_t>(table.rows.size());
  const size_t features = columns - (target < columns ? 1 : 0);

  Tensor data(DType::kFloat32, {rows, static_cast<int64_t>(features)});
  std::vector<double> targets;
  bool all_numbers = true, all_whole = true;
  size_t at = 0;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      const std::optional<double> value = number(table.rows[r][c]);
      if (c == target) {
        all_numbers = all_numbers && value;
        all_whole = all_whole && value && *value == std::rint(*value) && std::abs(*value) < 1e15;
        targets.push_back(value.value_or(0));
      } else if (value) {
        data.data<float>()[at++] = static_cast<float>(*value);
      } else {
        const std::string name =
            table.header.empty() ? std::to_string(c) : "'" + table.header[c] + "'";
        throw Error(ErrorCode::kFile, what + ", line " + std::to_string(table.lines[r]) +
                                          ", column " + name + ": '" + table.rows[r][c] +
                                          "' is not a number; features must be numbers (drop the "
                                          "column or encode it)");
      }
    }
  }
  TensorMap arrays{{"data", data}};
  std::vector<std::string> classes = options.classes;
  if (target < columns) {
    Tensor& out = arrays["target"];
    if (!classes.empty() || !all_numbers) {
      out = class_ids(table, target, &classes, what);
    } else {
      out = Tensor::from<double>(targets, {rows}).to(all_whole ? DType::kInt64 : DType::kFloat32);
    }
  }
  return std::make_unique<TensorDataset>(std::move(arrays), std::move(classes));
}

}  // namespace trainrt
