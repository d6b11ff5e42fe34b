// Threads of the OpenMP runtime that our kernels and oneDNN share.
#ifndef TRAINRT_RUNTIME_THREADS_H_
#define TRAINRT_RUNTIME_THREADS_H_

namespace trainrt {

/// Threads for parallel regions started by the calling thread; 0: OMP_NUM_THREADS, or all cores the
/// process may use. Throws Error(kUsage) for negative counts and counts above 4096.
void set_threads(int count);
int thread_count();

/// libgomp reads GOMP_SPINCOUNT when it is loaded, and its default makes a step several times
/// slower as soon as another process is busy. Sets the variable and starts the running program
/// again with the same arguments, once; returns when it was set already or the restart failed. Call
/// first thing in main().
void restart_with_short_spin(char** argv);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_THREADS_H_
