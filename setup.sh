#!/usr/bin/env bash
# Installs what trainrt builds with, on Debian 12 or 13 as root. Says what it will do first; touches nothing
# when everything is there already. `./setup.sh --check` only reports.
set -euo pipefail

base_packages=(bazel-bootstrap git python3 python3-venv make cmake pkgconf)
library_packages=(g++-14 libdnnl-dev catch2 libonnx-dev libonnx-testdata libprotobuf-dev protobuf-compiler libeigen3-dev libdlpack-dev libhwy-dev
  libcli11-dev nlohmann-json3-dev zlib1g-dev libstb-dev libbenchmark-dev)

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# Debian 12's own libraries are too old for these; a package counts only from the version named here.
new_enough() {
  case "$1" in
    libdnnl-dev) dpkg --compare-versions "$(dpkg-query -W -f='${Version}' "$1")" ge 3.6 ;;
    catch2) dpkg --compare-versions "$(dpkg-query -W -f='${Version}' "$1")" ge 3.5 ;;
    libonnx-dev | libonnx-testdata) dpkg --compare-versions "$(dpkg-query -W -f='${Version}' "$1")" ge 1.16 ;;
    libdlpack-dev) dpkg --compare-versions "$(dpkg-query -W -f='${Version}' "$1")" ge 1.0 ;;
    libhwy-dev) dpkg --compare-versions "$(dpkg-query -W -f='${Version}' "$1")" ge 1.1 ;;
    *) true ;;
  esac
}

# Where there is NVIDIA's toolkit, libtrainrt_cuda.so is built with cuDNN's frontend: headers, from PyPI.
frontend_version=1.32.0
frontend_folder=/usr/local/share/trainrt/cudnn-frontend
wants_frontend() {
  local cuda=${CUDA_PATH:-/usr/local/cuda}
  [ "${TRAINRT_CUDA:-}" != 0 ] && [ -z "${CUDNN_FRONTEND_PATH:-}" ] && [ -x "$cuda/bin/nvcc" ] && [ -f "$cuda/include/cudnn.h" ] &&
    [ "$(cat $frontend_folder/version 2>/dev/null)" != $frontend_version ]
}
fetch_frontend() {
  echo "setup: a CUDA toolkit was found; fetching the headers nvidia-cudnn-frontend $frontend_version from PyPI to $frontend_folder"
  [ "$(id -u)" = 0 ] || { echo "setup.sh: run it as root, or unpack that wheel yourself and set CUDNN_FRONTEND_PATH" >&2; return 1; }
  local work
  work=$(mktemp -d)
  if python3 -m venv "$work/venv" &&
    "$work/venv/bin/pip" -q download --no-deps --only-binary=:all: -d "$work" "nvidia-cudnn-frontend==$frontend_version" &&
    python3 -m zipfile -e "$work"/nvidia_cudnn_frontend-*.whl "$work/wheel"; then
    rm -rf $frontend_folder
    mkdir -p $frontend_folder
    cp -r "$work/wheel/include" $frontend_folder/include
    echo $frontend_version > $frontend_folder/version
  else
    echo "setup: no headers: trainrt is built without its CUDA backend" >&2
  fi
  rm -rf "$work"
}

command -v dpkg-query >/dev/null || {
  echo "setup.sh: this is not Debian; install by hand: ${base_packages[*]} ${library_packages[*]}" >&2
  exit 1
}
missing_base=() missing_libraries=()
for p in "${base_packages[@]}"; do installed "$p" || missing_base+=("$p"); done
for p in "${library_packages[@]}"; do { installed "$p" && new_enough "$p"; } || missing_libraries+=("$p"); done
if [ "${#missing_base[@]}" -eq 0 ] && [ "${#missing_libraries[@]}" -eq 0 ]; then
  if [ "${1:-}" != --check ] && wants_frontend; then fetch_frontend; fi
  echo "setup: everything is installed already"
  exit 0
fi
echo "setup: will install with apt-get: ${missing_base[*]-} ${missing_libraries[*]-}"
[ "${1:-}" != --check ] || exit 1
[ "$(id -u)" = 0 ] || { echo "setup.sh: run it as root (it calls apt-get), or install the packages above yourself" >&2; exit 1; }

export DEBIAN_FRONTEND=noninteractive
. /etc/os-release
target=()
if [ "${VERSION_CODENAME:-}" = bookworm ]; then
  echo "setup: Debian 12 found; the libraries come from Debian 13 (trixie), added as a source with low priority"
  d=/etc/apt/sources.list.d
  if [ -f $d/debian.sources ]; then # the main stanza only, not the security one
    awk 'BEGIN{RS="";ORS="\n\n"} /bookworm-updates|Suites: bookworm( |\n|$)/' $d/debian.sources |
      sed 's/^Suites:.*/Suites: trixie/' > $d/trixie.sources
  else
    sed -n '/^deb .*bookworm /{s/bookworm /trixie /p;q}' /etc/apt/sources.list > $d/trixie.list
  fi
  printf 'Package: *\nPin: release n=trixie\nPin-Priority: 100\n' > /etc/apt/preferences.d/trixie
  target=(-t trixie)
fi
options=(-y --no-install-recommends -o Dpkg::Options::=--force-confold)
apt-get -qq update
if [ "${#missing_base[@]}" -gt 0 ]; then apt-get -qq install "${options[@]}" "${missing_base[@]}"; fi
if [ "${#missing_libraries[@]}" -gt 0 ]; then
  apt-get -qq install "${options[@]}" "${target[@]}" "${missing_libraries[@]}"
fi
if wants_frontend; then fetch_frontend; fi
echo "setup: done"
