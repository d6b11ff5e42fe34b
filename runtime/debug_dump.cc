#include "runtime/debug_dump.h"

#include <filesystem>
#include <fstream>

#include "trainrt/error.h"

namespace trainrt {

void check_debug_options(const DebugOptions& options) {
  if (options.save_onnx && options.onnx_prefix.empty()) {
    throw Error(ErrorCode::kUsage, "debug.save_onnx needs debug.onnx_prefix");
  }
}

std::string debug_model_path(const DebugOptions& options) {
  return (std::filesystem::path(options.save_path) / (options.onnx_prefix + ".onnx")).string();
}

void dump_stage(const DebugOptions& options, int64_t number, std::string_view stage,
                const std::string& text) {
  const std::filesystem::path path =
      std::filesystem::path(options.save_path) /
      (options.onnx_prefix + "_" + std::string(stage) + "_" + std::to_string(number) + ".txt");
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw Error(ErrorCode::kFile, path.string() + " cannot be written");
}

}  // namespace trainrt
