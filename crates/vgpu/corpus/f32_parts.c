#include "corpus.h"

/* Numbers taken apart and put together. */
KERNEL(f32_parts, f32, u32)
{
    f32 a = in[2 * item], b = in[2 * item + 1];
    u32 bits = bits32(a);
    int scale = (int)(bits32(b) >> 20 & 0xFF) - 128;
    GLOBAL u32 *to = out + 6 * item;
    to[0] = bits32(__builtin_fabsf(a));
    to[1] = bits32(__builtin_copysignf(a, b == b ? b : 1.0f));
    to[2] = (u32)(__builtin_isnan(a) != 0) | (u32)(__builtin_isinf(a) != 0) << 1;
    to[2] |= (u32)(__builtin_isfinite(a) != 0) << 2;
    to[3] = bits >> 23 & 0xFF;
    to[4] = bits32(__builtin_ldexpf(a, scale));
    to[5] = a == 0 ? 0 : (bits & 0x7FFFFF) == 0;
}
