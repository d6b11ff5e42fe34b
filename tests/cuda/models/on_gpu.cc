#include "tests/cuda/runtime/gpu_source.h"
#include "tests/models/where.h"

namespace trainrt::testing {

ModuleOptions starting_options() { return on_gpu(); }
bool runs_bf16() { return true; }

}  // namespace trainrt::testing
