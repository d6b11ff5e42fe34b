#!/usr/bin/env bash
# ctypes_test.sh SCRIPT libtrainrt.so FOLDER/FILE: the Python program trains through the library.
set -euo pipefail
# A sanitizer's runtime must be loaded first, and finds C++'s exceptions only if their library is there.
if ldd "$2" | grep -q 'lib[a-z]*san\.so'; then
  LD_PRELOAD=$(ldd "$2" | awk '/lib[a-z]*san\.so/ { print $3 } /libstdc\+\+\.so/ { last = $3 } END { print last }' | paste -sd:)
  export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0
fi
exec python3 "$1" "$2" "$(dirname "$3")" "${TEST_TMPDIR:-/tmp}"
