// Tables of numbers.
#ifndef TRAINRT_RUNTIME_DATA_CSV_H_
#define TRAINRT_RUNTIME_DATA_CSV_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

namespace trainrt {

struct CsvTable {
  std::vector<std::string> header;             // empty: the file has none
  std::vector<std::vector<std::string>> rows;  // all of the same width
  std::vector<int64_t> lines;                  // line of each row in the file, from 1
};

/// Fields separated by commas (or by semicolons or tabs, when the first line has no comma); quoted
/// fields may hold separators, doubled quotes and line ends. The first row is a header when one of
/// its fields is no number and the field below it is one, or when none of its fields is a number.
/// Rows of different width throw Error(kFile) naming the line.
CsvTable parse_csv(std::string_view text, const std::string& what);

/// Field "data": float32[n, columns] without the target column. Field "target": int64 when all
/// values are whole numbers, class ids in sorted order when any is no number, else float32.
std::unique_ptr<Dataset> open_csv(const std::string& path, const DataOptions& options);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_DATA_CSV_H_
