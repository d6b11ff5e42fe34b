#!/usr/bin/env bash
# exports_test.sh HEADER libtrainrt.so ERRORS_TEST TRAIN_TEST: every function of the header is
# exported under its own name, and has a row or a check in the tests of wrong calls; the header compiles
# as C99 and as C++98 with every warning on.
set -euo pipefail
header=$1 library=$2 errors=$3 train=$4
functions=$(grep -o 'trainrt_[a-z_]*(' "$header" | tr -d '(' | sort -u)
[ "$(wc -l <<< "$functions")" -ge 70 ] || { echo "too few functions found in $header"; exit 1; }
exported=$(nm -D --defined-only "$library" | awk '{ print $NF }')
failed=0
for f in $functions; do
  grep -qx "$f" <<< "$exported" || { echo "$library does not export $f"; failed=1; }
  case $f in
    # They take no handle and cannot fail.
    trainrt_version | trainrt_status_name | trainrt_dtype_* | trainrt_last_error | trainrt_last_error_code | \
      trainrt_last_error_problem_count | trainrt_clear_error) where=$train$'\n'$errors ;;
    *) where=$errors ;;
  esac
  found=0
  for file in $where; do grep -q "\b$f(" "$file" && found=1; done
  [ $found = 1 ] || { echo "no test of wrong calls names $f"; failed=1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '#include "trainrt/trainrt_c.h"\nint main(void) { return trainrt_version() == 0; }\n' > "$folder/use.c"
strict="-pedantic -Wall -Wextra -Werror -I. -fsyntax-only"
g++-14 -x c -std=c99 -Wstrict-prototypes $strict "$folder/use.c" || failed=1
g++-14 -x c++ -std=c++98 $strict "$folder/use.c" || failed=1
exit $failed
