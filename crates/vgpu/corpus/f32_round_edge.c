#include "corpus.h"

/* The same for numbers that have no fraction, or nothing but one. */
KERNEL(f32_round_edge, f32, u32)
{
    f32 a = in[item];
    GLOBAL u32 *to = out + 4 * item;
    to[0] = bits32(__builtin_floorf(a));
    to[1] = bits32(__builtin_ceilf(a));
    to[2] = bits32(__builtin_truncf(a));
    to[3] = bits32(__builtin_rintf(a));
}
