#include "corpus.h"

KERNEL(min_max, u64, u64)
{
    u64 a = in[2 * item], b = in[2 * item + 1];
    GLOBAL u64 *to = out + 8 * item;
    to[0] = __builtin_elementwise_min(a, b);
    to[1] = __builtin_elementwise_max(a, b);
    to[2] = (u64)__builtin_elementwise_min((i64)a, (i64)b);
    to[3] = (u64)__builtin_elementwise_max((i64)a, (i64)b);
    to[4] = __builtin_elementwise_min((u32)a, (u32)b);
    to[5] = (u64)__builtin_elementwise_max((i32)a, (i32)b);
    to[6] = __builtin_elementwise_min((u16)a, (u16)b);
    to[7] = (u64)__builtin_elementwise_max((i16)a, (i16)b);
}
