#!/usr/bin/env bash
# The tests that need an NVIDIA GPU, in about ten minutes: every kernel row against the reference, whole models
# against PyTorch's values, training runs, memory over 500 sessions, and the speed beside PyTorch's where
# torch with CUDA is installed. Ends with `N passed, N failed, N skipped` and writes one JSON file.
#   tests/gpu.sh [--device cuda:0] [--json gpu.json] [--python PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 tests/gpu.py "$@"
