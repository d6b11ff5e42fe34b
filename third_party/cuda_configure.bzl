"""@local_cuda: NVIDIA's toolkit where this machine has one.

It is looked for in $CUDA_PATH, beside an nvcc on PATH, and in /usr/local/cuda. cuDNN's frontend, headers only, is looked
for in $CUDNN_FRONTEND_PATH and where setup.sh puts it. TRAINRT_CUDA=0 does without; TRAINRT_CUDA=1 (--config=cuda)
makes it an error that they are missing. @local_cuda//:config.bzl holds CUDA (the root, "" for none), HOST_CXX and WHY.
"""

_LIBRARIES = ["cudart_static", "cublasLt", "cudnn", "nvrtc"]

def _toolkit(ctx):
    roots = []
    if ctx.os.environ.get("CUDA_PATH"):
        roots.append(ctx.path(ctx.os.environ["CUDA_PATH"]))
    nvcc = ctx.which("nvcc")
    if nvcc:
        roots.append(nvcc.dirname.dirname)
    for root in roots + [ctx.path("/usr/local/cuda")]:
        if root.get_child("bin").get_child("nvcc").exists and root.get_child("include").get_child("cudnn.h").exists:
            return root
    return None

def _frontend(ctx):
    for place in [ctx.os.environ.get("CUDNN_FRONTEND_PATH", ""), "/usr/local/share/trainrt/cudnn-frontend", "/usr/local", "/usr"]:
        if place and ctx.path(place).get_child("include").get_child("cudnn_frontend.h").exists:
            return ctx.path(place).get_child("include")
    return None

def _impl(ctx):
    wanted = ctx.os.environ.get("TRAINRT_CUDA", "")
    root = None if wanted == "0" else _toolkit(ctx)
    frontend = _frontend(ctx) if root else None
    why = ""
    if wanted == "0":
        why = "switched off by TRAINRT_CUDA=0"
    elif not root:
        why = "no CUDA toolkit with cuDNN in $CUDA_PATH, beside nvcc on PATH, or in /usr/local/cuda"
    elif not frontend:
        why = "no cudnn_frontend.h in $CUDNN_FRONTEND_PATH/include; setup.sh fetches it"
    if why and wanted == "1":
        fail("TRAINRT_CUDA=1: " + why)
    host = ctx.os.environ.get("CC", "g++-14")
    ctx.file("config.bzl", "CUDA = %r\nHOST_CXX = %r\nWHY = %r\n" % ("" if why else str(root), host, why))
    if why:
        ctx.file("BUILD", "")
        return
    for entry in root.get_child("include").readdir():
        if entry.basename.endswith(".h") or entry.basename.endswith(".hpp") or entry.basename in ["crt", "nv"]:
            ctx.symlink(entry, "include/" + entry.basename)
    for entry in frontend.readdir():
        if entry.basename.startswith("cudnn_"):
            ctx.symlink(entry, "frontend/include/" + entry.basename)
    lib = str(root.get_child("lib64"))
    ctx.file("BUILD", """load("@rules_cc//cc:defs.bzl", "cc_library")
package(default_visibility = ["//visibility:public"])
cc_library(name = "cuda", hdrs = glob(["include/**"]), includes = ["include"],
    linkopts = ["-L%s", "-Wl,-rpath,%s", "-lcudart_static", "-lrt", "-lpthread", "-ldl"])
cc_library(name = "cublas_lt", linkopts = ["-lcublasLt"], deps = [":cuda"])
cc_library(name = "nvrtc", linkopts = ["-lnvrtc"], deps = [":cuda"])
cc_library(name = "cudnn", hdrs = glob(["frontend/**"]), includes = ["frontend/include"], linkopts = ["-lcudnn"],
    defines = ["CUDNN_FRONTEND_SKIP_JSON_LIB"], deps = [":nvrtc"])
""" % (lib, lib))

cuda_configure = repository_rule(
    _impl,
    local = True,
    environ = ["CUDA_PATH", "CUDNN_FRONTEND_PATH", "TRAINRT_CUDA", "CC", "PATH"],
)
