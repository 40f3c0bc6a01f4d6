#!/bin/sh
# build.sh ROCM OUTDIR: compiles hip_suite, hip_load and hip_sharing against the HIP library in the directory ROCM (see
# `cargo xtask setup`) into OUTDIR. Run them with `ROCM/run OUTDIR/hip_suite`.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 ROCM OUTDIR" >&2; exit 2; }
mkdir -p "$2"
library=$(echo "$(cd "$1" && pwd)"/usr/lib/x86_64-linux-gnu/libamdhip64.so.[0-9])
out=$(cd "$2" && pwd)
cd "$(dirname "$0")"
common="-std=c11 -O2 -Wall -Wextra -Werror -ffp-contract=off"
clang-19 $common --target=amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib kernels.c -o "$out/hip_suite.hsaco"
# The library wants a newer libc than this system may have: it gets it when the program runs.
clang-19 $common -DCODE_OBJECT="\"$out/hip_suite.hsaco\"" hip_suite.c compute.c movement.c mistakes.c "$library" \
    -Wl,--allow-shlib-undefined -o "$out/hip_suite"
clang-19 $common -DCODE_OBJECT="\"../../../../kfd-suite/kernels/gfx942/advance.hsaco\"" hip_load.c "$library" -lm \
    -Wl,--allow-shlib-undefined -o "$out/hip_load"
clang-19 $common -DCODE_OBJECT="\"$out/hip_suite.hsaco\"" hip_sharing.c "$library" -Wl,--allow-shlib-undefined \
    -o "$out/hip_sharing"
