#include "corpus.h"

KERNEL(mul_high, u64, u64)
{
    u64 a = in[2 * item], b = in[2 * item + 1];
    GLOBAL u64 *to = out + 4 * item;
    to[0] = (u64)((unsigned __int128)a * b >> 64);
    to[1] = (u64)((__int128)(i64)a * (i64)b >> 64);
    to[2] = (u64)(u32)a * (u32)b >> 32;
    to[3] = (u64)((i64)(i32)a * (i32)b >> 32);
}
