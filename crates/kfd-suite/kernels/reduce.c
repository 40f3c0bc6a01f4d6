#include "device.h"

/* One partial sum for each workgroup, by halving: the order of additions is fixed, so the result is too. */
KERNEL reduce(GLOBAL const float *in, GLOBAL float *partial, u32 n)
{
    LOCAL float sums[256];
    u32 i = GROUP * 256 + LANE;
    sums[LANE] = i < n ? in[i] : 0.0f;
    barrier();
    for (u32 half = 128; half > 0; half /= 2) {
        if (LANE < half)
            sums[LANE] += sums[LANE + half];
        barrier();
    }
    if (LANE == 0)
        partial[GROUP] = sums[0];
}
