#include "corpus.h"

/* Results below the smallest normal number keep their bits. */
KERNEL(f32_denormal, u32, u32)
{
    f32 a = __builtin_bit_cast(f32, in[2 * item] & 0x807FFFFF);
    f32 b = __builtin_bit_cast(f32, (in[2 * item + 1] & 0x80FFFFFF) | 0x00800000);
    GLOBAL u32 *to = out + 5 * item;
    to[0] = bits32(a + b);
    to[1] = bits32(a * 0.5f);
    to[2] = bits32(b * 0.25f);
    to[3] = bits32(a - a * 0.5f);
    to[4] = bits32(a * 16777216.0f);
}
