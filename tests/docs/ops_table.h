// Writes docs/ops.md from the tables of the frontend, the gradient rules and the kernels.
#ifndef TRAINRT_TESTS_DOCS_OPS_TABLE_H_
#define TRAINRT_TESTS_DOCS_OPS_TABLE_H_

#include <string>

namespace trainrt {

std::string ops_table();

}  // namespace trainrt

#endif  // TRAINRT_TESTS_DOCS_OPS_TABLE_H_
