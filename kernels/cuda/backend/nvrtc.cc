#include "kernels/cuda/backend/nvrtc.h"

#include <nvrtc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "kernels/cuda/backend/sources.h"
#include "trainrt/error.h"

namespace trainrt::cuda {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "trainrt cubin 1\n";
constexpr uintmax_t kCacheBytes = uintmax_t{256} << 20;

void check_nvrtc(nvrtcResult status, const char* call) {
  if (status == NVRTC_SUCCESS) return;
  throw Error(ErrorCode::kInternal, std::string(call) + ": " + nvrtcGetErrorString(status));
}

#define TRAINRT_NVRTC(call) check_nvrtc(call, #call)

uint64_t fnv(const std::string& text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string hex(uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

/// All that the machine code depends on.
std::string key_of(const std::string& source, const std::string& architecture) {
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  return "nvrtc " + std::to_string(major) + "." + std::to_string(minor) + " " + architecture +
         "\n" + kDeviceHeader + source;
}

struct Entry {
  std::string key, code;
};

std::string packed(const Entry& entry) {
  std::string bytes = kMagic;
  for (const std::string* part : {&entry.key, &entry.code}) {
    const uint64_t size = part->size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += *part;
  }
  return bytes + hex(fnv(bytes, 0xcbf29ce484222325u));
}

/// The code when the file is a whole entry for this key.
std::string unpacked(const fs::path& path, const std::string& key) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  // The length of the code is what is left over.
  const size_t around = packed({key, ""}).size();
  if (bytes.size() <= around) return {};
  const size_t code = bytes.size() - around;
  const std::string found = bytes.substr(bytes.size() - 16 - code, code);
  return packed({key, found}) == bytes ? found : std::string();
}

/// Lets the oldest entries go while there is too much.
void trim(const fs::path& folder) {
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  uintmax_t total = 0;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != ".cubin") continue;
    total += entry.file_size(ignored);
    files.emplace_back(entry.last_write_time(ignored), entry.path());
  }
  if (total <= kCacheBytes) return;
  std::sort(files.begin(), files.end());
  for (const auto& [time, path] : files) {
    if (total <= kCacheBytes / 2) break;
    total -= std::min(total, fs::file_size(path, ignored));
    fs::remove(path, ignored);
  }
}

}  // namespace

std::string compile_source(const std::string& source, const std::string& architecture) {
  const std::string text = kDeviceHeader + source;
  nvrtcProgram program = nullptr;
  TRAINRT_NVRTC(nvrtcCreateProgram(&program, text.c_str(), "trainrt.cu", 0, nullptr, nullptr));
  struct Destroy {
    nvrtcProgram* program;
    ~Destroy() { nvrtcDestroyProgram(program); }
  } destroy{&program};
  const std::string arch = "--gpu-architecture=" + architecture;
  const char* options[] = {arch.c_str(), "--std=c++20"};
  const nvrtcResult status = nvrtcCompileProgram(program, 2, options);
  if (status != NVRTC_SUCCESS) {
    size_t size = 0;
    nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    if (size > 0) nvrtcGetProgramLog(program, log.data());
    throw Error(ErrorCode::kInternal, "a generated kernel does not compile for " + architecture +
                                          " (" + nvrtcGetErrorString(status) + "):\n" +
                                          log.c_str() + "\n" + source);
  }
  size_t size = 0;
  std::string code;
  if (architecture.starts_with("sm_")) {
    TRAINRT_NVRTC(nvrtcGetCUBINSize(program, &size));
    code.resize(size);
    TRAINRT_NVRTC(nvrtcGetCUBIN(program, code.data()));
  } else {
    TRAINRT_NVRTC(nvrtcGetPTXSize(program, &size));
    code.resize(size);
    TRAINRT_NVRTC(nvrtcGetPTX(program, code.data()));
  }
  return code;
}

std::string cached_source(const std::string& source, const std::string& architecture,
                          const std::string& folder) {
  if (folder.empty()) return compile_source(source, architecture);
  const std::string key = key_of(source, architecture);
  const fs::path path = fs::path(folder) / (hex(fnv(key, 0xcbf29ce484222325u)) +
                                            hex(fnv(key, 0x84222325cbf29ce4u)) + ".cubin");
  if (std::string code = unpacked(path, key); !code.empty()) return code;
  std::string code = compile_source(source, architecture);
  std::error_code failed;
  fs::create_directories(folder, failed);
  std::string name = path.string() + ".XXXXXX";
  const int handle = mkstemp(name.data());
  if (handle < 0) return code;
  const std::string bytes = packed({key, code});
  const bool whole =
      write(handle, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  close(handle);
  if (whole) fs::rename(name, path, failed);
  if (!whole || failed) fs::remove(name, failed);
  trim(folder);
  return code;
}

std::string cache_folder() {
  if (const char* own = std::getenv("TRAINRT_CACHE_DIR")) return own;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/trainrt";
  }
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? std::string() : std::string(home) + "/.cache/trainrt";
}

std::string architecture_for(int major, int minor) {
  int count = 0;
  TRAINRT_NVRTC(nvrtcGetNumSupportedArchs(&count));
  std::vector<int> known(static_cast<size_t>(count));
  TRAINRT_NVRTC(nvrtcGetSupportedArchs(known.data()));
  const int own = 10 * major + minor;
  if (std::find(known.begin(), known.end(), own) != known.end()) {
    return "sm_" + std::to_string(own);
  }
  int best = 0;
  for (const int arch : known) {
    if (arch < own) best = std::max(best, arch);
  }
  if (best == 0) {
    throw Error(ErrorCode::kUnsupported, "NVRTC knows no architecture for compute capability " +
                                             std::to_string(major) + "." + std::to_string(minor));
  }
  return "compute_" + std::to_string(best);
}

}  // namespace trainrt::cuda
