"""What tests/gpu.sh runs; see there."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from test import count_log  # noqa: E402

LIBRARY = "kernels/cuda/backend/libtrainrt_cuda.so"
PROGRAM = "runtime/cli/trainrt"
# Of each group: what it is, the package of its tests, the tests' arguments.
GROUPS = [
    ("kernel rows against the reference", "tests/cuda/kernels", ["~[cpu]"]),
    ("training runs and memory", "tests/cuda/runtime", []),
    ("whole models against PyTorch's values", "tests/cuda/models", []),
]
BENCH_MODELS = ["mlp", "lenet", "gpt", "lstm", "resnet18", "mobilenetv2", "vit"]


def test_names(package):
    query = subprocess.run(["bazel", "query", f"kind(cc_test, //{package}:all)"], capture_output=True, text=True, check=True)
    return sorted(line.split(":")[1] for line in query.stdout.split())


def bench(args, built, result):
    """Rows of bench/compare.py, or why there are none."""
    probe = "import torch, transformers, torchvision; assert torch.cuda.is_available(), 'torch sees no GPU'"
    found = subprocess.run([args.python, "-c", probe], capture_output=True, text=True)
    if found.returncode:
        result["throughput_skipped"] = found.stderr.strip().splitlines()[-1] if found.stderr.strip() else "no torch"
        return (0, 0, 1)
    passed = failed = 0
    result["throughput"] = []
    for precision in ["f32", "tf32", "bf16"]:
        out = pathlib.Path(args.json).with_suffix(f".{precision}.tmp")
        run = subprocess.run([args.python, "bench/compare.py", "--trainrt", built / PROGRAM, "--device", args.device, "--rounds", "1",
                              "--seconds", "2", "--precision", precision, "--json", out, "--work", args.work, *BENCH_MODELS])
        if run.returncode == 0:
            rows = json.loads(out.read_text())
            result["throughput"] += [{"precision": precision, **row, "ratio": row["torch_ms"] / row["ms"]} for row in rows]
            passed += 1
        else:
            failed += 1
        out.unlink(missing_ok=True)
    return (passed, failed, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", default="gpu.json", help="the results")
    parser.add_argument("--python", default=sys.executable, help="one that has torch with CUDA, for the speed")
    parser.add_argument("--work", default="bench-work", help="folder for the exported models")
    args = parser.parse_args()
    result = {"device": None, "groups": []}
    totals = [0, 0, 0]

    def add(name, counts, seconds, **more):
        passed, failed, skipped = counts
        for i, n in enumerate(counts):
            totals[i] += n
        result["groups"].append({"name": name, "passed": passed, "failed": failed, "skipped": skipped, "seconds": round(seconds, 1), **more})
        print(f"gpu: {name}: {passed} passed, {failed} failed, {skipped} skipped, {seconds:.0f} s", flush=True)

    def finish():
        result.update(passed=totals[0], failed=totals[1], skipped=totals[2])
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
        print(f"gpu: results are in {args.json}")
        print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
        sys.exit(1 if totals[1] else 0)

    config = subprocess.run(["bazel", "build", "-c", "opt", "--config=cuda", f"//{PROGRAM.replace('/trainrt', ':trainrt')}",
                             f"//{LIBRARY.replace('/lib', ':lib')}"] + [f"//{package}:all" for _, package, _ in GROUPS], cwd=ROOT)
    if config.returncode:
        result["skipped_because"] = "the CUDA backend does not build here: see above"
        add("everything", (0, 0, len(GROUPS) + 1), 0)
        finish()
    built = pathlib.Path(subprocess.run(["bazel", "info", "-c", "opt", "bazel-bin"], capture_output=True, text=True, check=True).stdout.strip())
    env = dict(os.environ, TRAINRT_CUDA_LIBRARY=str(built / LIBRARY), TRAINRT_TEST_DEVICE=args.device, BAZEL_TEST="0")
    devices = subprocess.run([built / PROGRAM, "devices", "--json"], capture_output=True, text=True, env=env)
    listed = [json.loads(line) for line in devices.stdout.splitlines()]
    wanted = args.device if ":" in args.device else args.device + ":0"
    result["device"] = next((d for d in listed if d["device"] == wanted), None)
    if result["device"] is None:
        told = subprocess.run([built / PROGRAM, "devices"], capture_output=True, text=True, env=env).stdout
        result["skipped_because"] = next((line for line in told.splitlines() if line.startswith("cuda")), f"there is no {wanted}")
        print(f"gpu: skipped: {result['skipped_because']}")
        add("everything", (0, 0, len(GROUPS) + 1), 0)
        finish()
    print(f"gpu: on {result['device']['name']}", flush=True)
    for name, package, arguments in GROUPS:
        begin, counts, failures = time.time(), [0, 0, 0], []
        for test in test_names(package):
            run = subprocess.run([built / package / test, *arguments], capture_output=True, text=True, errors="replace", cwd=ROOT, env=env)
            counts = [a + b for a, b in zip(counts, count_log(run.stdout, run.returncode == 0))]
            if run.returncode:
                failures.append({"test": f"{package}/{test}", "output": (run.stdout + run.stderr)[-4000:]})
                print(run.stdout[-4000:] + run.stderr[-2000:], flush=True)
        add(name, counts, time.time() - begin, failures=failures)
    begin = time.time()
    add("speed beside PyTorch", bench(args, built, result), time.time() - begin)
    finish()


main()
