#include "kernels/kernel.h"
#include "tests/models/where.h"

namespace trainrt::testing {

ModuleOptions starting_options() { return {}; }
bool runs_bf16() { return cpu_runs_bf16(); }
bool keeps_as_autocast() { return false; }
double coarser_sums() { return 1; }

}  // namespace trainrt::testing
