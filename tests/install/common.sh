# Helpers of the tests that use trainrt from outside its tree.
passed=0 failed=0

# check NAME COMMAND…: one test case, in a shell of its own; what it prints is shown when it fails.
check() {
  local name=$1 log
  shift
  if log=$(set -euo pipefail; "$@" 2>&1); then
    passed=$((passed + 1))
    echo "ok: $name"
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n%s\n' "$name" "$log"
  fi
}

fail() { echo "$@"; exit 1; }

finish() { # the line that tools/test.py counts
  echo "test cases: $((passed + failed)) | $passed passed | $failed failed"
  [ "$failed" = 0 ]
}

# commands HEADING: the first ```sh block below that heading of docs/install.md, so that what is tested is what is told.
commands() {
  awk -v heading="## $1" '$0 == heading { on = 1 } block && /^```$/ { exit } block { print } on && /^```sh$/ { block = 1 }' \
    "$root/docs/install.md" | grep . || { echo "docs/install.md has no commands below '$1'" >&2; return 1; }
}

# check_training TEXT: the program trained two steps of the digits, and its loss went down.
check_training() {
  echo "$1"
  local losses
  losses=$(sed -n 's/^step [12]: loss \([0-9.]*\)$/\1/p' <<< "$1")
  [ "$(wc -l <<< "$losses")" = 2 ] || fail "two losses expected"
  awk 'NR > 1 && $1 >= last { exit 1 } { last = $1 }' <<< "$losses" || fail "the loss did not go down"
  grep -qx "trainrt $version" <<< "$1" || fail "not the version of trainrt/version.h: $version"
}

version_part() { sed -n "s/^#define TRAINRT_VERSION_$1 //p" "$root/trainrt/version.h"; }
