#!/usr/bin/env python3
"""Round trips of state_dict through trainrt, against PyTorch itself: see README.md.

    check_torch.py ROUND_TRIP [NAME...]

ROUND_TRIP is the program that round_trip.cc makes."""
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
try:
    import onnx
    import torch
    import transformers  # noqa: F401
    from safetensors.torch import load_file, save_file

    from architectures import CASES, build, exports, inputs
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)


def check(program, name, exporter, model, folder):
    """What is wrong; None when nothing is."""
    onnx.save(model, folder / "model.onnx")
    source = build(name, seed=3).eval()
    state = {key: value.detach().clone() for key, value in source.state_dict().items()}
    save_file(state, folder / "in.safetensors")
    run = subprocess.run([program, folder / "model.onnx", folder / "in.safetensors",
                          folder / "out.safetensors"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return run.stderr.strip()
    target = build(name, seed=4).eval()
    target.load_state_dict(load_file(folder / "out.safetensors"), strict=True)
    for key, value in target.state_dict().items():
        if not torch.equal(value, state[key]):
            return f"{key} differs"
    args = inputs(name)
    with torch.no_grad():
        if not torch.equal(source(*args), target(*args)):
            return "the outputs differ"
    return None


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        sys.exit(2)
    program = pathlib.Path(sys.argv[1]).resolve()
    failures = 0
    for name in sys.argv[2:] or CASES:
        for exporter, model in exports(name, build(name), inputs(name)).items():
            with tempfile.TemporaryDirectory() as folder:
                fault = check(program, name, exporter, model, pathlib.Path(folder))
            print(f"{name} {exporter}: {fault or 'ok'}")
            failures += fault is not None
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
