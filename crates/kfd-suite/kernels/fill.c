#include "device.h"

KERNEL fill(GLOBAL u32 *out, u32 pattern, u32 n)
{
    u32 i = GROUP * 256 + LANE;
    if (i < n)
        out[i] = pattern ^ i;
}
