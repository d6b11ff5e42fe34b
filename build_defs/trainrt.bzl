"""Macros that give every target of ours the same language level, threads and test setup."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

_COPTS = ["-std=c++20", "-fopenmp"]
_LINKOPTS = ["-fopenmp"]

def trainrt_library(name, copts = [], linkopts = [], **kwargs):
    cc_library(
        name = name,
        copts = _COPTS + copts,
        linkopts = _LINKOPTS + linkopts,
        linkstatic = 1,
        **kwargs
    )

def trainrt_binary(name, copts = [], **kwargs):
    cc_binary(
        name = name,
        copts = _COPTS + copts,
        linkopts = _LINKOPTS,
        **kwargs
    )

def trainrt_test(name, deps = [], copts = [], linkopts = [], size = "small", **kwargs):
    cc_test(
        name = name,
        copts = _COPTS + copts,
        linkopts = _LINKOPTS + linkopts,
        linkstatic = 1,
        deps = deps + ["@catch2_main"],
        env = {"BAZEL_TEST": "1"},
        size = size,
        timeout = "long",

        **kwargs
    )
