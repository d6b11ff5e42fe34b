#include "runtime/cli/interrupt.h"

#include <csignal>

namespace trainrt::cli {
namespace {

volatile std::sig_atomic_t stop = 0;

extern "C" void on_signal(int) { stop = 1; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return stop != 0; }

}  // namespace trainrt::cli
