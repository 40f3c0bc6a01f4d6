#include "device.h"

typedef int int4 __attribute__((ext_vector_type(4)));

/* One wave multiplies a (16 x depth) by b, transposed (16 x depth), bytes into 32-bit sums, 32 columns at a time. */
KERNEL mfma_i8(GLOBAL const signed char *a, GLOBAL const signed char *b, GLOBAL int *c, u32 depth)
{
    u32 index = LANE % 16;
    u32 block = LANE / 16;
    int4 sum = {0, 0, 0, 0};
    for (u32 k = 0; k < depth; k += 32) {
        u32 from = index * depth + k + block * 8;
        i64 left = *(GLOBAL const i64 *)(a + from);
        i64 right = *(GLOBAL const i64 *)(b + from);
        sum = __builtin_amdgcn_mfma_i32_16x16x32_i8(left, right, sum, 0, 0, 0);
    }
    for (u32 row = 0; row < 4; row++)
        c[(block * 4 + row) * 16 + index] = sum[row];
}
