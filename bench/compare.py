#!/usr/bin/env python3
"""Times trainrt beside PyTorch in alternating rounds and prints a Markdown table; see README.md."""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))


def export(name, path):
    """Writes PATH.onnx (TorchScript exporter, training mode) and PATH.npz (one batch)."""
    import numpy as np
    import torch

    import models
    warnings.filterwarnings("ignore")
    module, x, target = models.build(name)
    torch.onnx.export(module.train(), (x,), path + ".onnx", dynamo=False, opset_version=17, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    np.savez(path + ".npz", x=x.numpy(), target=target.numpy())


def last_json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(lines[-1])


def measure(name, args):
    """Medians over the rounds: the best PyTorch mode and trainrt."""
    import models
    path = os.path.join(args.work, name)
    if not os.path.exists(path + ".npz"):
        export(name, path)
    images = name in ("lenet", "resnet18", "mobilenetv2", "vit", "unet", "mixer", *models.VISION)
    modes = args.modes.split(",") if images else ["eager", "compile"]
    modes = [m for m in modes if m in args.modes.split(",")]
    torch_runs, ours = {m: [] for m in modes}, []
    for _ in range(args.rounds):
        for mode in modes:
            torch_mode = mode + ("" if args.precision == "f32" else "-" + args.precision)
            torch_mode += "-cuda" if args.device.startswith("cuda") else ""
            torch_runs[mode].append(last_json([sys.executable, f"{HERE}/torch_step.py", name, torch_mode, str(args.seconds)]))
        ours.append(last_json([args.trainrt, "bench", path + ".onnx", "--data", path + ".npz", "--batch", "all", "--loss",
                               "cross_entropy", "--optimizer", "adamw", "--seconds", str(args.seconds), "--precision", args.precision, "--device", args.device,
                               "--json"]))
    middle = lambda runs, key: statistics.median(r[key] for r in runs)
    best = min(modes, key=lambda m: middle(torch_runs[m], "step_ms"))
    row = {"name": name, "mode": best, "torch_ms": middle(torch_runs[best], "step_ms"), "ms": middle(ours, "step_ms"),
           "torch_mib": middle(torch_runs[best], "step_mib")}
    for key in ("forward_ms", "backward_ms", "update_ms", "plan_ms", "arena_bytes", "arena_lower_bound_bytes", "step_memory_bytes"):
        row[key] = middle(ours, key)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainrt", required=True)
    parser.add_argument("--work", default="bench-work", help="folder for the exported models")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16", "tf32"])
    parser.add_argument("--device", default="cpu", help="cpu, or cuda[:N] for both")
    parser.add_argument("--json", help="also writes the rows to this file")
    parser.add_argument("--modes", default="eager,channelslast,compile")
    parser.add_argument("models", nargs="*", help="names; 'sample': twenty others")
    args = parser.parse_args()
    sys.path.insert(0, HERE)
    import torch

    import models
    os.makedirs(args.work, exist_ok=True)
    print(f"{datetime.date.today()}, {os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}\n")
    print("| model | PyTorch, best mode | trainrt | PyTorch / trainrt | forward + backward + update | plan | arena (bound) | "
          "memory: trainrt / PyTorch |")
    print("|---|---|---|---|---|---|---|---|")
    names = [n for given in args.models or models.NAMES for n in (models.SAMPLE if given == "sample" else [given])]
    rows = []
    for name in names:
        r = measure(name, args)
        rows.append(r)
        print(f"| {name} | {r['torch_ms']:.1f} ms ({r['mode']}) | {r['ms']:.1f} ms | {r['torch_ms'] / r['ms']:.2f} | "
              f"{r['forward_ms']:.1f} + {r['backward_ms']:.1f} + {r['update_ms']:.1f} ms | {r['plan_ms']:.0f} ms | "
              f"{r['arena_bytes'] / 2**20:.0f} ({r['arena_lower_bound_bytes'] / 2**20:.0f}) MiB | "
              f"{r['step_memory_bytes'] / 2**20:.0f} / {r['torch_mib']:.0f} MiB = "
              f"{r['step_memory_bytes'] / 2**20 / r['torch_mib']:.2f} |", flush=True)
    if args.json:
        with open(args.json, "w") as out:
            json.dump(rows, out, indent=1)


main()
