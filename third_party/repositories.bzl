"""Debian's libraries as Bazel repositories; setup.sh installs them.

A WORKSPACE that uses trainrt calls trainrt_dependencies(); with MODULE.bazel, extensions.bzl does the same."""

load("//third_party:system_library.bzl", "system_folder", "system_library")

LIBRARIES = {
    "onednn": dict(
        package = "libdnnl-dev",
        headers = ["oneapi"],
        libs = ["libdnnl.so"],
    ),
    "eigen": dict(
        package = "libeigen3-dev",
        headers = ["eigen3/Eigen -> Eigen"],
    ),
    "dlpack": dict(
        package = "libdlpack-dev",
        headers = ["dlpack"],
    ),
    "protobuf": dict(
        package = "libprotobuf-dev",
        headers = ["google/protobuf"],
        libs = ["libprotobuf.so"],
    ),
    "onnx": dict(
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
    ),
    "highway": dict(
        package = "libhwy-dev",
        headers = ["hwy"],
        libs = ["libhwy.so"],
        defs = ["HWY_SHARED_DEFINE"],
    ),
    "cli11": dict(
        package = "libcli11-dev",
        headers = ["CLI"],
    ),
    "json": dict(
        package = "nlohmann-json3-dev",
        headers = ["nlohmann"],
    ),
    "zlib": dict(
        package = "zlib1g-dev",
        headers = [
            "zlib.h",
            "zconf.h",
        ],
        libs = ["libz.so"],
    ),
    "stb": dict(
        package = "libstb-dev",
        headers = ["stb"],
    ),
}

TEST_LIBRARIES = {
    "catch2": dict(
        package = "catch2",
        headers = ["catch2"],
        libs = ["libCatch2.a"],
    ),
    "catch2_main": dict(
        package = "catch2",
        libs = ["libCatch2Main.a"],
        deps = ["@catch2"],
    ),
    "benchmark": dict(
        package = "libbenchmark-dev",
        headers = ["benchmark"],
        libs = ["libbenchmark.so"],
    ),
}

TEST_FOLDERS = {
    "onnx_testdata": dict(
        package = "libonnx-testdata",
        folder = "libonnx-testdata/data",
    ),
}

def _make(rule, table):
    for name, attributes in table.items():
        if not native.existing_rule(name):  # the workspace has its own, which it prefers
            rule(name = name, **attributes)

def trainrt_dependencies():
    """What @trainrt//:trainrt and the program need. Repositories that exist already stay as they are."""
    _make(system_library, LIBRARIES)

def trainrt_test_dependencies():
    """What trainrt's own tests and benchmarks need besides."""
    _make(system_library, TEST_LIBRARIES)
    _make(system_folder, TEST_FOLDERS)

def _stand_in_impl(ctx):
    shims = ctx.path(Label("//third_party:repositories.bzl")).dirname.get_child("shims")
    for path in shims.get_child(ctx.name).readdir():
        ctx.symlink(path, path.basename)

_stand_in = repository_rule(_stand_in_impl, local = True)

def trainrt_offline_rules():
    """Bazel 4 downloads these even for plain C++; the stand-ins keep the build offline."""
    for name in ["rules_cc", "rules_java", "rules_proto", "remote_coverage_tools"]:
        if not native.existing_rule(name):
            _stand_in(name = name)
