#include "runtime/threads.h"

#include <omp.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "trainrt/error.h"

namespace trainrt {

void set_threads(int count) {
  if (count < 0 || count > 4096) {
    throw Error(ErrorCode::kUsage,
                "threads: expected 0 (all cores) to 4096, given " + std::to_string(count));
  }
  // What OpenMP starts with: OMP_NUM_THREADS, else the cores this process may use.
  static const int initial = omp_get_max_threads();
  omp_set_num_threads(count == 0 ? initial : count);
}

int thread_count() { return omp_get_max_threads(); }

void restart_with_short_spin(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  // Passive waiting is a choice of the user's that a spin count would undo.
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  execv("/proc/self/exe", argv);
}

}  // namespace trainrt
