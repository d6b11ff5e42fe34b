// SIGINT and SIGTERM as a request to stop after the step that is running.
#ifndef TRAINRT_RUNTIME_CLI_INTERRUPT_H_
#define TRAINRT_RUNTIME_CLI_INTERRUPT_H_

namespace trainrt::cli {

/// The first signal only sets a flag; a second one ends the process at once.
void catch_interrupts();
bool interrupted();

}  // namespace trainrt::cli

#endif  // TRAINRT_RUNTIME_CLI_INTERRUPT_H_
