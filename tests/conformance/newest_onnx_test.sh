#!/usr/bin/env bash
# newest_onnx_test.sh PROGRAM MAKER LIST DIFFERENCES: the backend tests of the newest onnx package from PyPI. They are made
# by its Python code, so pip installs it in a virtual environment of the test's own folder.
set -euo pipefail
onnx_version=1.23.2
program=$1 maker=$2 list=$3 differences=$4
if [ "${TRAINRT_OFFLINE:-}" = 1 ]; then
  echo "SKIPPED: TRAINRT_OFFLINE=1 is set, and the cases of onnx $onnx_version come from PyPI"
  echo "test cases: 1 | 1 skipped"
  exit 0
fi
venv=$TEST_TMPDIR/venv cases=$TEST_TMPDIR/cases
trap 'rm -rf "$venv" "$cases"' EXIT
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --no-cache-dir --no-compile "onnx==$onnx_version" || {
  echo "FAIL: pip cannot install onnx $onnx_version from PyPI; TRAINRT_OFFLINE=1 in the environment skips this test" >&2
  exit 1
}
"$venv/bin/python" -W ignore "$maker" "$cases"
"$program" --data "$cases" --list "$list" --differences "$differences"
