#include "kernels/cuda/backend/nvrtc.h"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {
namespace {

using namespace testing;

constexpr char kDouble[] = R"(
namespace trainrt::cuda {
struct Args { const float* in0; float* out0; };
TRAINRT_KERNEL(twice, Args) {
  for (i64 i = global_index(); i < 1000; i += global_size()) args.out0[i] = 2.0f * args.in0[i];
}
}
)";

bool is_elf(const std::string& code) {
  return code.starts_with(
      "\x7f"
      "ELF");
}

std::vector<std::filesystem::path> entries(const TemporaryFolder& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& e : std::filesystem::directory_iterator(folder.path()))
    found.push_back(e.path());
  return found;
}

TEST_CASE("sources become machine code for architectures of which there is none here") {
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    CHECK(is_elf(cuda::compile_source(kDouble, arch)));
  }
  CHECK(contains(cuda::compile_source(kDouble, "compute_90"), ".entry twice"));
  CHECK(cuda::architecture_for(9, 0) == "sm_90");
  CHECK(cuda::architecture_for(99, 0).starts_with("compute_"));
}

TEST_CASE("what does not compile is an error with the compiler's log and the source") {
  const std::string text =
      failure([] { cuda::compile_source("int f() { return x; }", "sm_90"); }, ErrorCode::kInternal);
  CHECK(contains(text, "undefined"));
  CHECK(contains(text, "return x"));
}

TEST_CASE("machine code is kept on disk and made again when the file is damaged") {
  const TemporaryFolder folder;
  const std::string code = cuda::cached_source(kDouble, "sm_90", folder.path());
  REQUIRE(entries(folder).size() == 1);
  const std::filesystem::path file = entries(folder)[0];
  // A hit: the file says what the code is.
  const auto before = std::filesystem::last_write_time(file);
  CHECK(cuda::cached_source(kDouble, "sm_90", folder.path()) == code);
  CHECK(std::filesystem::last_write_time(file) == before);
  for (const std::string& damage : {std::string(), std::string("trainrt cubin 1\n"), [&] {
                                      std::string bytes = TemporaryFolder::read(file.string());
                                      bytes[bytes.size() / 2] ^= 1;
                                      return bytes;
                                    }()}) {
    std::ofstream(file, std::ios::binary) << damage;
    CHECK(cuda::cached_source(kDouble, "sm_90", folder.path()) == code);
    CHECK(TemporaryFolder::read(file.string()).size() > code.size());
  }
  cuda::cached_source(kDouble, "sm_80", folder.path());
  CHECK(entries(folder).size() == 2);
}

TEST_CASE("a cache that cannot be written to is none") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "no folder");
  CHECK(is_elf(cuda::cached_source(kDouble, "sm_90", file + "/below")));
  CHECK(is_elf(cuda::cached_source(kDouble, "sm_90", "")));
}

TEST_CASE("the cache's folder follows the environment") {
  setenv("TRAINRT_CACHE_DIR", "/own", 1);
  CHECK(cuda::cache_folder() == "/own");
  unsetenv("TRAINRT_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  CHECK(cuda::cache_folder() == "/cache/trainrt");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/me", 1);
  CHECK(cuda::cache_folder() == "/home/me/.cache/trainrt");
}

}  // namespace
}  // namespace trainrt
