#include "runtime/cli/trace.h"

#include "runtime/cli/report.h"
#include "runtime/data/file.h"

namespace trainrt::cli {

void write_trace(const std::string& path, std::span<const NodeTiming> nodes) {
  Json events = Json::array();
  for (const NodeTiming& node : nodes) {
    const double per_ns = node.ms > 0 ? 1e-6 / node.ms : 0;
    events.push_back({{"name", node.name.empty() ? node.op : node.name + " (" + node.op + ")"},
                      {"cat", node.section},
                      {"ph", "X"},
                      {"ts", node.start_ms * 1000},
                      {"dur", node.ms * 1000},
                      {"pid", 1},
                      {"tid", node.section},
                      {"args",
                       {{"op", node.op},
                        {"kernel", node.kernel},
                        {"operands", node.operands},
                        {"flops", node.flops},
                        {"bytes", node.bytes},
                        {"gflops_per_s", static_cast<double>(node.flops) * per_ns},
                        {"gbytes_per_s", static_cast<double>(node.bytes) * per_ns}}}});
  }
  OutputFile file(path);
  file.write(Json({{"traceEvents", events}}).dump(-1, ' ', false, Json::error_handler_t::replace));
  file.commit();
}

}  // namespace trainrt::cli
