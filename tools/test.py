#!/usr/bin/env python3
"""Runs `bazel test` on the given targets and ends with the line `N passed, N failed`.

Counted are single Catch2 test cases. The logs come from Bazel's event file, since bazel-testlogs keeps
those of targets that are gone. A target that does not build, crashes or prints no summary counts as
one failure."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# Tests that call Bazel themselves, which does not go inside `bazel test`; they run when all targets are asked for.
SCRIPTS = ["tests/install/second_workspace_test.sh"]


def run_bazel(args):
    """Bazel's exit code and its build events."""
    with tempfile.TemporaryDirectory() as tmp:
        events = pathlib.Path(tmp) / "events.json"
        code = subprocess.run(["bazel", "test", "--keep_going", f"--build_event_json_file={events}", *args]).returncode
        return code, [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []


def count_log(text, ok):
    """(passed, failed, skipped) of one test log."""
    if found := re.search(r"^All tests passed \(.* in (\d+) test cases?\)", text, re.M):
        return int(found[1]), int(not ok), 0
    if found := re.search(r"^test cases: .*", text, re.M):
        count = {k: int(n) for n, k in re.findall(r"(\d+) (passed|failed as expected|failed|skipped)", found[0])}
        failed = count.get("failed", 0) or int(not ok)
        return count.get("passed", 0) + count.get("failed as expected", 0), failed, count.get("skipped", 0)
    return (int(ok and "No tests ran" not in text), int(not ok), 0)


def run_script(script):
    """Whether the script ended well, and what it printed, which is shown as well."""
    print(f"{script}:", flush=True)
    with subprocess.Popen([script], stdout=subprocess.PIPE, text=True, errors="replace") as process:
        lines = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode == 0, "".join(lines)


def cuda_line():
    """What came of the CUDA backend, which is built where @local_cuda found a toolkit."""
    base = subprocess.run(["bazel", "info", "output_base"], capture_output=True, text=True).stdout.strip()
    config = pathlib.Path(base) / "external/local_cuda/config.bzl"
    values = dict(re.findall(r'^(\w+) = "(.*)"$', config.read_text(), re.M)) if config.exists() else {}
    if values.get("CUDA"):
        return "cuda: the backend was built and tested as far as that goes without a GPU (tests/gpu.sh needs one)"
    return f"cuda: skipped, {values.get('WHY', 'not looked for')}"


def main():
    args = sys.argv[1:] or ["//..."]
    code, events = run_bazel(args)
    passed = failed = skipped = 0
    for event in events:
        if "testResult" in event:
            result = event["testResult"]
            logs = [o["uri"] for o in result.get("testActionOutput", []) if o["name"] == "test.log"]
            text = pathlib.Path(logs[0].removeprefix("file://")).read_text(errors="replace") if logs else ""
            p, f, s = count_log(text, result.get("status") == "PASSED")
            passed, failed, skipped = passed + p, failed + f, skipped + s
        elif "targetCompleted" in event.get("id", {}) and not event.get("completed", {}).get("success"):
            failed += 1
    # A sanitizer's build is no way to use the library.
    if "//..." in args and not any(arg.startswith("--config") for arg in args):
        for script in SCRIPTS:
            ok, text = run_script(script)
            p, f, s = count_log(text, ok)
            passed, failed, skipped = passed + p, failed + f, skipped + s
    if "//..." in args:
        print(cuda_line())
    if skipped:
        print(f"{skipped} skipped")
    if passed + failed == 0:
        failed = 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(code or (1 if failed else 0))


if __name__ == "__main__":
    main()
