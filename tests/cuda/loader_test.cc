#include "kernels/cuda/loader.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>

#include "tests/support/failure.h"
#include "tests/support/temporary_folder.h"

namespace trainrt {
namespace {

using namespace testing;

std::string opening(const std::string& library) {
  setenv("TRAINRT_CUDA_LIBRARY", library.c_str(), 1);
  return failure([] { cuda::open_gpu(0); }, ErrorCode::kUnsupported);
}

/// Builds a shared library of this source.
std::string library(const TemporaryFolder& folder, const std::string& name,
                    const std::string& source, const std::string& flags = "") {
  const std::string path = folder.file("lib" + name + ".so");
  const std::string file = folder.write(name + ".cc", source);
  REQUIRE(std::system(("g++-14 -shared -fPIC -o '" + path + "' '" + file + "' " + flags).c_str()) ==
          0);
  return path;
}

TEST_CASE("no backend: the error says where it was looked for and how to build it") {
  const std::string text = opening("/nowhere/libtrainrt_cuda.so");
  CHECK(contains(text, "/nowhere/libtrainrt_cuda.so"));
  CHECK(contains(text, "bazel build"));
  CHECK(contains(failure([] { cuda::list_gpus(); }, ErrorCode::kUnsupported), "no CUDA backend"));
}

TEST_CASE("a library of NVIDIA's that is missing is named") {
  const TemporaryFolder folder;
  const std::string needed = library(folder, "cublasLt_gone", "int f() { return 1; }");
  const std::string path = library(folder, "backend", "int f(); int g() { return f(); }",
                                   "-Wl,--no-as-needed -L'" + folder.path() + "' -lcublasLt_gone");
  std::filesystem::remove(needed);
  const std::string text = opening(path);
  CHECK(contains(text, "libcublasLt_gone.so"));
  CHECK(contains(text, "LD_LIBRARY_PATH"));
}

TEST_CASE("other libraries and other builds are refused by name") {
  const TemporaryFolder folder;
  CHECK(contains(opening(library(folder, "other", "int f() { return 1; }")),
                 "is no CUDA backend of trainrt"));
  const std::string old =
      library(folder, "old",
              "extern \"C\" { struct B { const char* abi; void* open; void* list; };"
              "extern const B trainrt_cuda_backend;"
              "const B trainrt_cuda_backend = {\"another\", nullptr, nullptr}; }");
  CHECK(contains(opening(old), "another build"));
}

}  // namespace
}  // namespace trainrt
