// Counts calls of operator new in a test program that links this.
#ifndef TRAINRT_TESTS_RUNTIME_COUNT_ALLOCATIONS_H_
#define TRAINRT_TESTS_RUNTIME_COUNT_ALLOCATIONS_H_

namespace trainrt::testing {

/// Calls of any operator new, by any thread, since the program started.
long allocation_count();

}  // namespace trainrt::testing

#endif  // TRAINRT_TESTS_RUNTIME_COUNT_ALLOCATIONS_H_
