#!/usr/bin/env bash
# Installs what is missing, builds everything and runs all tests; ends with `N passed, N failed`.
# Arguments go to `bazel test` (e.g. `./test.sh --config=asan //tests/graph/...`).
set -euo pipefail
cd "$(dirname "$0")"
./setup.sh
if [ $# -eq 0 ]; then set -- -c opt //...; fi
exec python3 tools/test.py "$@"
