#include "device.h"

KERNEL saxpy(GLOBAL const float *x, GLOBAL float *y, float a, u32 n)
{
    u32 i = GROUP * 256 + LANE;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
