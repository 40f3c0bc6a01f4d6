#include "corpus.h"

KERNEL(bit_casts, u64, u64)
{
    u64 a = in[item];
    f64 wide = __builtin_bit_cast(f64, a);
    f32 narrow = __builtin_bit_cast(f32, (u32)a);
    /* Without a NaN, whose bits a move may change. */
    if (wide != wide)
        wide = 1.0;
    if (narrow != narrow)
        narrow = 1.0f;
    out[2 * item] = __builtin_bit_cast(u64, -wide);
    out[2 * item + 1] = (u64)__builtin_bit_cast(u32, -narrow) << 32 | (__builtin_bit_cast(u32, narrow) ^ 0x80000000u);
}
