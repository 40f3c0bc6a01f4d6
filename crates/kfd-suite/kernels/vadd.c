#include "device.h"

KERNEL vadd(GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *sum, u32 n)
{
    u32 i = GROUP * 256 + LANE;
    if (i < n)
        sum[i] = a[i] + b[i];
}
