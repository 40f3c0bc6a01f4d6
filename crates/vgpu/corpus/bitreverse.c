#include "corpus.h"

KERNEL(bitreverse, u64, u64)
{
    u64 a = in[item];
    out[4 * item] = __builtin_bitreverse32((u32)a);
    out[4 * item + 1] = __builtin_bitreverse64(a);
    out[4 * item + 2] = __builtin_bswap32((u32)a);
    out[4 * item + 3] = __builtin_bswap64(a) ^ __builtin_bswap16((u16)a);
}
