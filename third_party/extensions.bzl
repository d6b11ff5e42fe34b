"""repositories.bzl for MODULE.bazel. Bazel 4 knows no module extensions and never loads this file."""

load("//third_party:cuda_configure.bzl", "cuda_configure")
load("//third_party:repositories.bzl", "LIBRARIES", "TEST_FOLDERS", "TEST_LIBRARIES")
load("//third_party:system_library.bzl", "system_folder", "system_library")

def _impl(ctx):
    for table in [LIBRARIES, TEST_LIBRARIES]:
        for name, attributes in table.items():
            system_library(name = name, **attributes)
    for name, attributes in TEST_FOLDERS.items():
        system_folder(name = name, **attributes)
    cuda_configure(name = "local_cuda")

system_libraries = module_extension(implementation = _impl)
