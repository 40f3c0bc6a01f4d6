#include "corpus.h"

KERNEL(bitcount, u64, u32)
{
    u64 a = in[item];
    u32 low = (u32)a;
    GLOBAL u32 *to = out + 6 * item;
    to[0] = (u32)__builtin_popcount(low);
    to[1] = (u32)__builtin_popcountl(a);
    to[2] = low ? (u32)__builtin_clz(low) : 99;
    to[3] = low ? (u32)__builtin_ctz(low) : 99;
    to[4] = a ? (u32)__builtin_clzl(a) : 99;
    to[5] = a ? (u32)__builtin_ctzl(a) : 99;
}
