#include "corpus.h"

KERNEL(f32_min_max, f32, u32)
{
    f32 a = in[3 * item], b = in[3 * item + 1], c = in[3 * item + 2];
    out[4 * item] = bits32_one_zero(__builtin_fminf(a, b));
    out[4 * item + 1] = bits32_one_zero(__builtin_fmaxf(a, b));
    out[4 * item + 2] = bits32_one_zero(__builtin_fminf(__builtin_fmaxf(a, -1.0f), 1.0f));
    out[4 * item + 3] = bits32_one_zero(__builtin_fmaxf(__builtin_fminf(a, b), c));
}
