#!/usr/bin/env bash
# Installs trainrt into a folder and uses it from programs outside the tree: plain g++, make, CMake.
set -euo pipefail
root=$PWD
. tests/install/common.sh
if nm -D --undefined-only libtrainrt.so | grep -q ' __[atu]b*san_'; then
  echo "SKIPPED: a library with a sanitizer inside needs programs built with it"
  echo "test cases: 1 | 1 skipped"
  exit 0
fi
CXX=g++-14
major=$(version_part MAJOR)
version=$major.$(version_part MINOR).$(version_part PATCH)
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/install.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Into a staging folder, as packagers do, which is then moved: nothing may remember where it was.
DESTDIR=$work/stage ./install.sh --prefix /opt/trainrt --built . || exit 1
prefix=$work/moved
mv "$work/stage/opt/trainrt" "$prefix"
digits=$prefix/share/doc/trainrt/examples/digits
export prefix

everything_is_there() {
  local file
  for file in bin/trainrt lib/libtrainrt.so lib/pkgconfig/trainrt.pc lib/cmake/trainrt/trainrtConfig.cmake \
    lib/cmake/trainrt/trainrtConfigVersion.cmake share/doc/trainrt/{LICENSE,README.md,docs/install.md}; do
    [ -s "$prefix/$file" ] || fail "$file is missing"
  done
  diff <(cd trainrt && ls -- *.h) <(ls "$prefix/include/trainrt")
  [ -z "$(find "$prefix" -xtype l)" ] || fail "links that lead nowhere: $(find "$prefix" -xtype l)"
  [ -z "$(find "$work/stage" -type f)" ] || fail "installed outside the prefix: $(find "$work/stage" -type f)"
  # No file knows the staging folder or the prefix it was made for; the documentation may name a prefix.
  if grep -rlE "$work/stage|/opt/trainrt" "$prefix"/{bin,include,lib}; then fail "these hold the old place"; fi
}
check "headers, library, program, package files and documentation are installed" everything_is_there

one_version() {
  local so=libtrainrt.so
  [ "$(readlink "$prefix/lib/$so")" = "$so.$major" ] || fail "$so leads to $(readlink "$prefix/lib/$so")"
  [ "$(readlink "$prefix/lib/$so.$major")" = "$so.$version" ] || fail "$so.$major leads elsewhere"
  readelf -d "$prefix/lib/$so.$version" | grep -F "soname: [$so.$major]" || fail "wrong soname"
  [ "$("$prefix/bin/trainrt" --version)" = "trainrt $version" ] || fail "$("$prefix/bin/trainrt" --version)"
  [ "$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion trainrt)" = "$version" ]
}
check "soname, program and pkg-config give the version of trainrt/version.h" one_version

only_our_symbols() {
  local symbols
  symbols=$(nm -D --defined-only "$prefix/lib/libtrainrt.so" | awk '{ print $NF }')
  # _ZN…: a name in a namespace; K: const member; T…, GV: type information, thunks, guards of one.
  local others
  others=$(grep -vE '^(_Z(T[a-z0-9_]+|T[A-Z]|GV)?Z?NK?7trainrt[0-9A-Za-z_]|trainrt_[a-z])' <<< "$symbols" || true)
  [ -z "$others" ] || fail "exported, but not ours: $(c++filt <<< "$others" | head -n 20)"
  local missing
  missing=$(nm -D --undefined-only "$prefix/lib/libtrainrt.so" | grep -E '7trainrt|trainrt_' || true)
  [ -z "$missing" ] || fail "used, but not inside: $(c++filt <<< "$missing")"
  c++filt <<< "$symbols" > "$work/symbols"
  for wanted in 'trainrt::version()' 'trainrt::Module::train(bool)' 'typeinfo for trainrt::Error'; do
    grep -qxF "$wanted" "$work/symbols" || fail "not exported: $wanted"
  done
}
check "libtrainrt.so exports namespace trainrt and nothing else" only_our_symbols

# Third-party headers are for eigen.h, whose purpose they are; the others know trainrt's own and the standard library.
own_includes() {
  local header line
  for header in "$prefix"/include/trainrt/*.h; do
    while read -r line; do
      case "$line" in
        trainrt/*.h) [ -e "$prefix/include/$line" ] || fail "$header includes $line, which is not installed" ;;
        Eigen/*) [ "$(basename "$header")" = eigen.h ] || fail "$header includes <$line>" ;;
        std[a-z]*.h | string.h) ;; # of C
        *[./]*) fail "$header includes $line" ;;
        *) echo "#include <$line>" | $CXX -std=c++20 -fsyntax-only -x c++ - || fail "$header includes <$line>" ;;
      esac
    done < <(sed -nE 's/^ *# *include *["<]([^">]*)[">].*/\1/p' "$header")
  done
}
check "public headers include trainrt's and the standard library's only" own_includes

headers_alone() {
  local header name
  for header in "$prefix"/include/trainrt/*.h; do
    name=$(basename "$header")
    echo "#include \"trainrt/$name\"" > "$work/alone.cc"
    $CXX -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" -isystem /usr/include/eigen3 \
      "$work/alone.cc" || fail "$name does not compile alone"
    case "$name" in
      *_c.h) $CXX -x c -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" "$work/alone.cc" ||
        fail "$name does not compile as C" ;;
    esac
  done
}
check "every public header compiles alone" headers_alone

old_standard() {
  echo '#include "trainrt/module.h"' > "$work/old.cc"
  if $CXX -std=c++17 -fsyntax-only -I"$prefix/include" "$work/old.cc" 2> "$work/old.log"; then fail "C++17 was enough"; fi
  grep -q 'error.*-std=c++20' "$work/old.log" || fail "$(cat "$work/old.log")"
}
check "an older C++ standard is told what is missing" old_standard

documented_files() {
  local count=0 block file found language
  for language in cmake python; do
    while IFS= read -r -d '#' block; do
      found=
      for file in examples/cpp/embed/{CMakeLists.txt,WORKSPACE,MODULE.bazel,BUILD.bazel}; do
        if [[ $(tr '#' '\001' < "$file") == *"${block%$'\n'}"* ]]; then found=1; fi
      done
      [ -n "$found" ] || fail "docs/install.md has text that is in no file of examples/cpp/embed: $block"
      count=$((count + 1))
    done < <(tr '#' '\001' < docs/install.md |
      awk -v open="\`\`\`$language" '$0 == "```" && on { on = 0; printf "#" } on { print } $0 == open { on = 1 }')
  done
  [ "$count" -ge 4 ] || fail "only $count blocks"
}
check "CMake and Bazel code of docs/install.md stands in examples/cpp/embed" documented_files

# use HEADING: a fresh copy of the example, the commands of that section in it, and what they print.
use() {
  local folder=$work/program
  rm -rf "$folder"
  cp -rL examples/cpp/embed "$folder"
  cp "$digits/digits.onnx" "$digits/train.npz" "$folder"
  commands "$1" > "$folder/commands.sh"
  check_training "$(cd "$folder" && env -u PKG_CONFIG_PATH -u LD_LIBRARY_PATH bash -euxo pipefail commands.sh)"
}
check "a program is built with g++ and pkg-config" use "pkg-config"
check "a program is built with make" use "make"
check "a program is built with CMake" use "CMake"

# What a header declares and no library that is linked whole defines is missing here first.
examples_link() {
  local source count=0
  while read -r source; do
    $CXX -std=c++20 -isystem /usr/include/eigen3 "$source" $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs trainrt) \
      -o "$work/example" || fail "$source does not link"
    count=$((count + 1))
  done < <(find "$prefix/share/doc/trainrt/examples" -name '*.cc')
  [ "$count" -ge 3 ] || fail "only $count examples"
}
check "all examples link with the installed library" examples_link

cmake_versions() {
  local folder=$work/version
  mkdir -p "$folder"
  for wanted in "$major" "$version" "$major.9999" "$((major + 1))"; do
    printf 'cmake_minimum_required(VERSION 3.16)\nproject(p NONE)\nfind_package(trainrt %s)\nmessage("found ${trainrt_FOUND}")\n' \
      "$wanted" > "$folder/CMakeLists.txt"
    rm -rf "$folder/build"
    cmake -S "$folder" -B "$folder/build" -DCMAKE_PREFIX_PATH="$prefix" > "$folder/log" 2>&1
    case "$wanted" in
      "$major" | "$version") grep -qx "found 1" "$folder/log" ;;
      *) grep -qx "found 0" "$folder/log" ;;
    esac || fail "version $wanted: $(cat "$folder/log")"
  done
}
check "CMake takes versions of the same major number up to this one" cmake_versions

bad_arguments() {
  local arguments
  for arguments in "--prefix" "--frob" "--built /nowhere/at/all"; do
    if ./install.sh $arguments > "$work/bad.log" 2>&1; then fail "install.sh $arguments ended well"; fi
    grep -qE "needs a folder|unknown argument|No such file" "$work/bad.log" || fail "$arguments: $(cat "$work/bad.log")"
  done
  grep -q -- --prefix <<< "$(./install.sh --help)" || fail "no help"
}
check "install.sh explains wrong arguments" bad_arguments

finish
