#!/bin/sh
# Compiles the kernels for gfx942 into DIRECTORY, one object each. Without an argument it renews the committed objects.
set -eu
cd "$(dirname "$0")"
out=${1:-gfx942}
mkdir -p "$out"
for source in *.c; do
    name=${source%.c}
    # The identification string is the only thing in an object that names the compiler's package, so it goes.
    clang-19 -std=c11 -target amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib -O2 -ffp-contract=off \
        -Wall -Wextra -Werror -fno-ident -c "$source" -o "$out/$name.o"
    ld.lld-19 -shared --strip-debug --build-id=none "$out/$name.o" -o "$out/$name.hsaco"
    rm "$out/$name.o"
    llvm-objcopy-19 --remove-section=.comment "$out/$name.hsaco"
    chmod 644 "$out/$name.hsaco"
done
