#include <fstream>
#include <iostream>

#include "tests/docs/ops_table.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: ops_table PATH\n";
    return 2;
  }
  std::ofstream out(argv[1], std::ios::binary);
  out << trainrt::ops_table();
  out.flush();
  if (!out) {
    std::cerr << "ops_table: cannot write " << argv[1] << "\n";
    return 1;
  }
}
