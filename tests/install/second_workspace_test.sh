#!/usr/bin/env bash
# Builds the example in a Bazel workspace of its own that knows trainrt as a local_repository, as docs/install.md says.
# tools/test.py runs it: it calls Bazel, which does not go inside `bazel test`.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
. tests/install/common.sh
version=$(version_part MAJOR).$(version_part MINOR).$(version_part PATCH)

# The folder stays beside Bazel's others, one for all checkouts: the next run builds only what changed.
outside=$(dirname "$(bazel info output_base 2> /dev/null)")/trainrt-second-workspace
workspace=$outside/embed
mkdir -p "$workspace"
exec 9> "$outside/lock"
flock 9
find "$workspace" -mindepth 1 -maxdepth 1 -exec rm -rf {} +
cp -r examples/cpp/embed/. "$workspace"
cp examples/digits/digits.onnx examples/digits/train.npz "$workspace"
sed -i "s|path = \"[^\"]*\"|path = \"$root\"|" "$workspace/WORKSPACE"
# Half the time of an optimized build in sandboxes; the sources, headers, visibility and libraries are the same.
cat >> "$workspace/.bazelrc" << RC
startup --output_base=$outside/base --max_idle_secs=5
build -c fastbuild --spawn_strategy=standalone
RC
commands "Bazel 4" > "$workspace/commands.sh"

train() {
  check_training "$(cd "$workspace" && bash -euxo pipefail commands.sh 9>&-)"
}
check "a program is built in a second Bazel workspace" train
(cd "$workspace" && bazel shutdown 9>&-) 2> /dev/null || true
finish
