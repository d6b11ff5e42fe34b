"""Device code, compiled by nvcc where @local_cuda found one."""

load("@local_cuda//:config.bzl", "CUDA", "HOST_CXX")

# Machine code for the architectures that trainrt names, and PTX for those to come.
_ARCHITECTURES = [
    "-gencode=arch=compute_%s,code=%s" % pair
    for pair in [("80", "sm_80"), ("90", "sm_90"), ("100", "sm_100"), ("90", "compute_90")]
]

def _fatbin_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".pic.o")
    src = ctx.file.src
    symbol = ctx.label.name

    # The linker names the bytes after the file: _binary_NAME_start.
    ctx.actions.run_shell(
        command = """set -e
out="$PWD/{out}"; work="$(mktemp -d)"; trap 'rm -rf "$work"' EXIT
"{cuda}/bin/nvcc" -fatbin -o "$work/{symbol}" -ccbin "{cxx}" -std=c++20 -O3 -I. {arch} {src}
cd "$work"; ld -r -b binary -z noexecstack -o {symbol}.o {symbol}
objcopy --rename-section .data=.rodata,alloc,load,readonly,data,contents --set-section-alignment .rodata=64 {symbol}.o "$out" """.format(
            arch = " ".join(_ARCHITECTURES),
            cuda = CUDA,
            cxx = HOST_CXX,
            out = out.path,
            src = src.path,
            symbol = symbol,
        ),
        env = {"PATH": "/usr/bin:/bin"},
        inputs = [src] + ctx.files.hdrs,
        mnemonic = "CudaCompile",
        outputs = [out],
        progress_message = "Compiling %s for GPUs" % src.short_path,
    )
    return [DefaultInfo(files = depset([out]))]

# An object with the fatbin of one .cu between _binary_NAME_start and _binary_NAME_end.
cuda_fatbin = rule(
    _fatbin_impl,
    attrs = {
        "hdrs": attr.label_list(allow_files = True),
        "src": attr.label(allow_single_file = [".cu"]),
    },
)
