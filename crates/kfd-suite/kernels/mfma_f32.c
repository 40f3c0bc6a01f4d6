#include "device.h"

typedef float float4 __attribute__((ext_vector_type(4)));

/* One wave multiplies a (16 x depth) by b (depth x 16) on the matrix cores, four columns of a at a time. */
KERNEL mfma_f32(GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *c, u32 depth)
{
    u32 index = LANE % 16;
    u32 block = LANE / 16;
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    for (u32 k = 0; k < depth; k += 4)
        sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a[index * depth + k + block], b[(k + block) * 16 + index], sum, 0, 0,
                                                   0);
    for (u32 row = 0; row < 4; row++)
        c[(block * 4 + row) * 16 + index] = sum[row];
}
