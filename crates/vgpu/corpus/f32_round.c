#include "corpus.h"

KERNEL(f32_round, f32, u32)
{
    f32 a = in[2 * item] * 8.0f;
    if (in[2 * item + 1] < 0)
        a *= 1e6f;
    GLOBAL u32 *to = out + 5 * item;
    to[0] = bits32(__builtin_floorf(a));
    to[1] = bits32(__builtin_ceilf(a));
    to[2] = bits32(__builtin_truncf(a));
    to[3] = bits32(__builtin_rintf(a));
    to[4] = bits32(__builtin_roundf(a));
}
