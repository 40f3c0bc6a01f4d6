#include "corpus.h"

KERNEL(f32_fma, f32, u32)
{
    f32 a = in[3 * item], b = in[3 * item + 1], c = in[3 * item + 2];
    out[4 * item] = bits32(__builtin_fmaf(a, b, c));
    out[4 * item + 1] = bits32(__builtin_fmaf(-a, b, c));
    out[4 * item + 2] = bits32(__builtin_fmaf(a, b, -c));
    /* What a product loses when it is rounded. */
    out[4 * item + 3] = bits32(__builtin_fmaf(a, b, -(a * b)));
}
