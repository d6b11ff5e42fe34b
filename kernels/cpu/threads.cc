#include "kernels/cpu/threads.h"

namespace trainrt {

void set_cpu_threads(int n) { omp_set_num_threads(std::max(n, 1)); }

int cpu_threads() { return omp_get_max_threads(); }

}  // namespace trainrt
