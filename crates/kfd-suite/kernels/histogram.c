#include "device.h"

KERNEL histogram(GLOBAL const u8 *in, GLOBAL u32 *bins, u32 n)
{
    u32 i = GROUP * 256 + LANE;
    if (i < n)
        atomic_add(&bins[in[i]], 1);
}
