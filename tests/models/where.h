// Where the tests of whole models run: the CPU here, a GPU in tests/cuda/models.
#ifndef TRAINRT_TESTS_MODELS_WHERE_H_
#define TRAINRT_TESTS_MODELS_WHERE_H_

#include "trainrt/options.h"

namespace trainrt::testing {

/// Options of a module there.
ModuleOptions starting_options();
bool runs_bf16();

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_MODELS_WHERE_H_
