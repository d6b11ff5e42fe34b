#!/usr/bin/env bash
# Builds trainrt and installs it for programs that do not use Bazel: headers, libtrainrt.so, the program
# trainrt, pkg-config and CMake files, documentation. docs/install.md says how to use them.
set -euo pipefail
usage="usage: install.sh [--prefix DIR] [--built DIR]
  --prefix DIR   where to (default /usr/local); DESTDIR in the environment goes before it
  --built DIR    take libtrainrt.so and runtime/cli/trainrt from DIR instead of building them
libtrainrt_cuda.so is installed too where it was built (docs/cuda.md)."

prefix=/usr/local built=
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix | --built)
      [ -n "${2:-}" ] || { echo "install.sh: $1 needs a folder" >&2; exit 2; }
      if [ "$1" = --prefix ]; then prefix=$2; else built=$(cd "$2" && pwd); fi
      shift 2 ;;
    --prefix=*) prefix=${1#*=}; shift ;;
    --built=*) built=$(cd "${1#*=}" && pwd); shift ;;
    -h | --help) echo "$usage"; exit 0 ;;
    *) echo "install.sh: unknown argument $1" >&2; echo "$usage" >&2; exit 2 ;;
  esac
done
case "$prefix" in
  /*) ;;
  *) prefix=$PWD/$prefix ;;
esac
cd "$(dirname "$0")"

if [ -z "$built" ]; then
  echo "install: building (a few minutes the first time)"
  bazel build -c opt //:libtrainrt.so //runtime/cli:trainrt
  built=bazel-bin
fi

number() { sed -n "s/^#define TRAINRT_VERSION_$1 //p" trainrt/version.h; }
major=$(number MAJOR)
version=$major.$(number MINOR).$(number PATCH)
to=${DESTDIR:-}$prefix
doc=$to/share/doc/trainrt

put() { install -D -m "$1" "$2" "$3"; } # follows links, makes folders
fill_in() { # a template of build_defs/package
  mkdir -p "$2"
  sed -e "s/@VERSION@/$version/g" -e "s/@MAJOR@/$major/g" "build_defs/package/$1.in" > "$2/$1"
  chmod 644 "$2/$1"
}

for header in trainrt/*.h; do put 644 "$header" "$to/include/$header"; done
# A new file under the final name in one move: programs that run keep the old one.
put 755 "$built/libtrainrt.so" "$to/lib/.libtrainrt.so.new"
mv "$to/lib/.libtrainrt.so.new" "$to/lib/libtrainrt.so.$version"
ln -sfn "libtrainrt.so.$version" "$to/lib/libtrainrt.so.$major"
ln -sfn "libtrainrt.so.$major" "$to/lib/libtrainrt.so"
put 755 "$built/runtime/cli/trainrt" "$to/bin/trainrt"
if [ -f "$built/kernels/cuda/backend/libtrainrt_cuda.so" ]; then # for --device cuda
  put 755 "$built/kernels/cuda/backend/libtrainrt_cuda.so" "$to/lib/libtrainrt_cuda.so"
fi
fill_in trainrt.pc "$to/lib/pkgconfig"
fill_in trainrtConfig.cmake "$to/lib/cmake/trainrt"
fill_in trainrtConfigVersion.cmake "$to/lib/cmake/trainrt"
for file in LICENSE *.md docs/*.md; do put 644 "$file" "$doc/$file"; done
find -L examples -type f ! -name BUILD.bazel | while read -r file; do
  put 644 "$file" "$doc/$file"
done
echo "install: trainrt $version is in $to"
case "$prefix" in
  /usr | /usr/local) [ -n "${DESTDIR:-}" ] || echo "install: run ldconfig once, so that programs find the library" ;;
  *) echo "install: programs find it with PKG_CONFIG_PATH=$prefix/lib/pkgconfig; docs/install.md says more" ;;
esac
