// Where the tests of whole models run: the CPU here, a GPU in tests/cuda/models.
#ifndef TRAINRT_TESTS_MODELS_WHERE_H_
#define TRAINRT_TESTS_MODELS_WHERE_H_

#include "trainrt/options.h"

namespace trainrt::testing {

/// Options of a module there.
ModuleOptions starting_options();
bool runs_bf16();
/// Whether about everything between products is kept as bfloat16, so that errors are those of
/// PyTorch's autocast; the CPU keeps less so.
bool keeps_as_autocast();
/// How much coarser sums of float32 are than the CPU's, which are in double: it shows in gradients
/// that vanish, where nothing but the rounding of their terms is left.
double coarser_sums();

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_MODELS_WHERE_H_
