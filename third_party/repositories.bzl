"""Debian's libraries as Bazel repositories; setup.sh installs them."""

load("//third_party:system_library.bzl", "system_folder", "system_library")

def trainrt_dependencies():
    system_library(
        name = "onednn",
        package = "libdnnl-dev",
        headers = ["oneapi"],
        libs = ["libdnnl.so"],
    )
    system_library(
        name = "eigen",
        package = "libeigen3-dev",
        headers = ["eigen3/Eigen -> Eigen"],
    )
    system_library(
        name = "catch2",
        package = "catch2",
        headers = ["catch2"],
        libs = ["libCatch2.a"],
    )
    system_library(
        name = "catch2_main",
        package = "catch2",
        libs = ["libCatch2Main.a"],
        deps = ["@catch2"],
    )
    system_library(
        name = "protobuf",
        package = "libprotobuf-dev",
        headers = ["google/protobuf"],
        libs = ["libprotobuf.so"],
    )
    system_library(
        name = "onnx",
        package = "libonnx-dev",
        headers = ["onnx"],
        libs = [
            "libonnx.so",
            "libonnx_proto.so",
        ],
        defs = [
            "ONNX_NAMESPACE=onnx",
            "ONNX_ML=1",
        ],
        deps = ["@protobuf"],
    )
    system_library(
        name = "highway",
        package = "libhwy-dev",
        headers = ["hwy"],
        libs = ["libhwy.so"],
        defs = ["HWY_SHARED_DEFINE"],
    )
    system_library(
        name = "cli11",
        package = "libcli11-dev",
        headers = ["CLI"],
    )
    system_library(
        name = "json",
        package = "nlohmann-json3-dev",
        headers = ["nlohmann"],
    )
    system_library(
        name = "zlib",
        package = "zlib1g-dev",
        headers = [
            "zlib.h",
            "zconf.h",
        ],
        libs = ["libz.so"],
    )
    system_library(
        name = "stb",
        package = "libstb-dev",
        headers = ["stb"],
    )
    system_library(
        name = "benchmark",
        package = "libbenchmark-dev",
        headers = ["benchmark"],
        libs = ["libbenchmark.so"],
    )
    system_folder(
        name = "onnx_testdata",
        package = "libonnx-testdata",
        folder = "libonnx-testdata/data",
    )
