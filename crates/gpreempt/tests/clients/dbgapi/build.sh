#!/bin/sh
# build.sh ROCM OUTDIR: compiles the debugger and the program that it debugs against the libraries of ROCm 7.2 in the
# directory ROCM (see `cargo xtask setup`) into OUTDIR. Run them with
# `gpreempt vgpu run -- ROCM/run OUTDIR/debugger ROCM/run OUTDIR/debuggee`.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 ROCM OUTDIR" >&2; exit 2; }
mkdir -p "$2"
rocm=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
libraries=$rocm/usr/lib/x86_64-linux-gnu
cd "$(dirname "$0")"
common="-std=c11 -O2 -Wall -Wextra -Werror"
clang-19 --target=amdgcn-amd-amdhsa -mcpu=gfx942 kernel.s -o "$out/debugged.hsaco"
# The libraries want a newer libc than this system may have: they get it when the programs run.
clang-19 $common -DCODE_OBJECT="\"$out/debugged.hsaco\"" debuggee.c "$libraries"/libamdhip64.so.[0-9] \
    -Wl,--allow-shlib-undefined -o "$out/debuggee"
clang-19 $common -I"$rocm/usr/include" debugger.c inferior.c "$libraries/librocm-dbgapi.so" \
    -Wl,--allow-shlib-undefined -o "$out/debugger"
