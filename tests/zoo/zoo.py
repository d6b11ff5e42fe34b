#!/usr/bin/env python3
"""Exports architectures of torchvision, timm, transformers and torch.nn with both exporters of PyTorch, and holds
trainrt's gradients against an independent framework. See README.md.

    zoo.py --trainrt BINARY --work DIR [--oracle SCRIPT] [NAME-GLOB...]"""
import argparse
import datetime
import fnmatch
import importlib
import importlib.metadata
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.dont_write_bytecode = True
TABLES = ["models_torch", "models_torchvision", "models_timm", "models_transformers"]


def in_child(function, log, timeout):
    """Runs the function in a forked process (the libraries are loaded once); what ended it, or None."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1), os.dup2(handle, 2)
        try:
            function()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
            code = 1
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return None if status == 0 else f"exit status {os.waitstatus_to_exitcode(status)}"
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"no result within {timeout:g} s"


def last_line(log):
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:300] if lines else "no message"


def job(entry, exporter, args):
    folder = args.work / f"{entry.name}.{exporter}"
    folder.mkdir(parents=True, exist_ok=True)
    meta_path, result_path = folder / "meta.json", folder / "result.json"
    if result_path.exists() and not args.again and not args.export_again:
        return None
    start = time.monotonic()
    if args.export_again or not meta_path.exists():
        for old in folder.iterdir():
            old.unlink()
        from export import export
        ended = in_child(lambda: export(entry, exporter, folder), folder / "export.log", args.timeout)
        if not meta_path.exists():
            meta_path.write_text(json.dumps({"error": f"{ended}: {last_line(folder / 'export.log')}"}))
    meta = json.loads(meta_path.read_text())
    result = {"name": entry.name, "library": entry.library, "exporter": exporter,
              **{k: v for k, v in meta.items() if k != "errors"}}
    if "error" in meta:
        result["status"] = "not exported"
    elif not args.export_only:
        from compare import Comparison

        def compare():
            found = Comparison(folder, meta, args.trainrt, args.oracle, args.timeout).all()
            (folder / "found.json").write_text(json.dumps(found))
        (folder / "found.json").unlink(missing_ok=True)
        ended = in_child(compare, folder / "compare.log", 3 * args.timeout)
        if (folder / "found.json").exists():
            result.update(json.loads((folder / "found.json").read_text()))
        else:
            result.update(status="failed", message=f"{ended}: {last_line(folder / 'compare.log')}")
    else:
        return "exported"
    result["seconds"] = round(time.monotonic() - start, 1)
    result["date"] = datetime.date.today().isoformat()
    result_path.write_text(json.dumps(result))
    if result["status"] == "agrees" and not args.keep:
        for path in folder.glob("*.npz"):
            if path.name.startswith("trainrt") or path.stat().st_size > 32 << 20 and path.name == "oracle.npz":
                path.unlink()
        (folder / "trained.onnx").unlink(missing_ok=True)
    return result["status"]


def versions(trainrt):
    libraries = ("torch", "torchvision", "timm", "transformers", "onnx", "onnxscript", "onnxruntime", "numpy")
    found = {name: importlib.metadata.version(name) for name in libraries}
    found["trainrt"] = subprocess.run([trainrt, "version"], capture_output=True, text=True).stdout.split("\n")[0]
    return found


def collect(work, names, trainrt):
    """results.jsonl: a line of versions, then a line for every result there is."""
    lines = [{"versions": versions(trainrt)}]
    for name in names:
        for exporter in ("script", "dynamo"):
            path = work / f"{name}.{exporter}" / "result.json"
            if path.exists():
                lines.append(json.loads(path.read_text()))
    (work / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainrt", required=True, help="the program")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for exports and results")
    parser.add_argument("--oracle", help="script called as `grad MODEL --batch B --loss L --out E --dtype T`")
    parser.add_argument("--exporter", choices=("script", "dynamo", "both"), default="both")
    parser.add_argument("--timeout", type=float, default=180, help="seconds for an export, and for a run of trainrt")
    parser.add_argument("--again", action="store_true", help="compare again what was compared before")
    parser.add_argument("--export-again", action="store_true", help="export again as well")
    parser.add_argument("--export-only", action="store_true")
    parser.add_argument("--status", help="with --again: only results whose status starts so")
    parser.add_argument("--keep", action="store_true", help="keep all arrays")
    parser.add_argument("--table", action="append", choices=TABLES, help="only this table")
    parser.add_argument("names", nargs="*", default=["*"])
    args = parser.parse_args()
    args.trainrt = os.path.abspath(args.trainrt)
    args.work.mkdir(parents=True, exist_ok=True)
    import entry as registry
    for table in args.table or TABLES:
        importlib.import_module(table)
    exporters = ("script", "dynamo") if args.exporter == "both" else (args.exporter,)
    for entry in registry.ENTRIES:
        if not any(fnmatch.fnmatchcase(entry.name, glob) for glob in args.names):
            continue
        for exporter in exporters:
            if args.status:
                path = args.work / f"{entry.name}.{exporter}" / "result.json"
                if not path.exists() or not json.loads(path.read_text())["status"].startswith(args.status):
                    continue
            status = job(entry, exporter, args)
            if status:
                print(f"{entry.name} {exporter}: {status}", flush=True)
    if not args.table:
        collect(args.work, [e.name for e in registry.ENTRIES], args.trainrt)


if __name__ == "__main__":
    main()
