#include "tests/cuda/runtime/gpu_source.h"
#include "tests/models/where.h"

namespace trainrt::testing {

ModuleOptions starting_options() { return on_gpu(); }
bool runs_bf16() { return true; }
bool keeps_as_autocast() { return true; }
double coarser_sums() { return 4; }

}  // namespace trainrt::testing
