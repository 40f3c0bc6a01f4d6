#!/bin/sh
# build.sh ROCM OUTDIR: compiles hip_suite, hip_load, hip_sharing and hsa_errors against the libraries in the directory
# ROCM (see `cargo xtask setup`) into OUTDIR. Run them with `ROCM/run OUTDIR/hip_suite`. The device library is that of
# Debian 13, in ROCM or in $GPREEMPT_ROCM, or else in the directory rocm13 beside ROCM: clang-19 cannot read later ones.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 ROCM OUTDIR" >&2; exit 2; }
mkdir -p "$2"
libraries=$(cd "$1" && pwd)/usr/lib/x86_64-linux-gnu
library=$(echo "$libraries"/libamdhip64.so.[0-9])
for rocm in "$1" "${GPREEMPT_ROCM:-$1}" "$1/../rocm13"; do
    bitcode=$(echo "$(cd "$rocm" && pwd)"/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode)
    [ ! -f "$bitcode/ockl.bc" ] || break
done
[ -f "$bitcode/ockl.bc" ] || { echo "$0: no rocm-device-libs-17: \`cargo xtask setup\` unpacks it" >&2; exit 1; }
out=$(cd "$2" && pwd)
cd "$(dirname "$0")"
common="-std=c11 -O2 -Wall -Wextra -Werror -ffp-contract=off"
gpu="--target=amdgcn-amd-amdhsa -mcpu=gfx942 -nogpulib"
clang-19 $common $gpu kernels.c -o "$out/hip_suite.hsaco"
device_library=
for part in ockl oclc_isa_version_942 oclc_abi_version_500 oclc_wavefrontsize64_on oclc_unsafe_math_off \
    oclc_finite_only_off oclc_correctly_rounded_sqrt_on oclc_daz_opt_off; do
    device_library="$device_library -Xclang -mlink-builtin-bitcode -Xclang $bitcode/$part.bc"
done
clang-19 $common $gpu $device_library library.c -o "$out/hip_library.hsaco"
# The library wants a newer libc than this system may have: it gets it when the program runs.
clang-19 $common -DCODE_OBJECT="\"$out/hip_suite.hsaco\"" -DLIBRARY_OBJECT="\"$out/hip_library.hsaco\"" \
    hip_suite.c compute.c movement.c graphs.c placement.c device_library.c mistakes.c "$library" \
    -Wl,--allow-shlib-undefined -o "$out/hip_suite"
clang-19 $common -DCODE_OBJECT="\"../../../../kfd-suite/kernels/gfx942/advance.hsaco\"" hip_load.c "$library" -lm \
    -Wl,--allow-shlib-undefined -o "$out/hip_load"
clang-19 $common -DCODE_OBJECT="\"$out/hip_suite.hsaco\"" hip_sharing.c "$library" -Wl,--allow-shlib-undefined \
    -o "$out/hip_sharing"
clang-19 $common -DCODE_OBJECT="\"$out/hip_suite.hsaco\"" hsa_errors.c "$libraries/libhsa-runtime64.so.1" \
    -Wl,--allow-shlib-undefined -o "$out/hsa_errors"
