#include "device.h"

/* 64-bit integers and doubles, divided as well. */
KERNEL wide(GLOBAL const i64 *in, GLOBAL i64 *integers, GLOBAL double *doubles, u32 n)
{
    u32 i = GROUP * 256 + LANE;
    if (i >= n)
        return;
    u64 bits = (u64)in[i];
    u64 mixed = bits * 0x9E3779B97F4A7C15ul;
    mixed ^= mixed >> 29;
    i64 divisor = (i64)(mixed >> 40) + 1;
    integers[i] = in[i] / divisor + (i64)(mixed % 1000003ul);
    double x = (double)(in[i] >> 16);
    doubles[i] = __builtin_sqrt(x * x + 1.0) / (double)divisor;
}
