#!/bin/sh
# Compiles the corpus into OUTDIR: NAME.O0.hsaco and NAME.O2.hsaco for gfx942, and libcorpus.so for the host with
# NAME_host(in, out, n) for each kernel and corpus_fill. With a second argument `check` also libcorpus-check.so, the
# same with a trap wherever the language does not define what happens: undefined behaviour makes machines differ.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 OUTDIR [check]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
common="-std=c11 -Wall -Wextra -Werror -Wno-unused-parameter -ffp-contract=off"
device="-target amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib"
# Halves are rounded after each operation, as the gpu does; the vectoriser only makes the reference harder to follow.
host="-O2 -fPIC -shared -fno-vectorize -fno-slp-vectorize -Xclang -ffloat16-excess-precision=none"
sources=$(ls ./*.c | grep -v corpus_host.c)
for source in $sources; do
    name=$(basename "$source" .c)
    for level in O0 O2; do
        clang-19 $common $device -$level "$source" -o "$out/$name.$level.hsaco"
    done
done
clang-19 $common $host $sources corpus_host.c -lm -o "$out/libcorpus.so"
if [ "${2:-}" = check ]; then
    clang-19 $common $host -fsanitize=undefined,float-cast-overflow,local-bounds -fsanitize-trap=all \
        $sources corpus_host.c -lm -o "$out/libcorpus-check.so"
fi
