#include "corpus.h"

/* Correctly rounded, small and large and special numbers included. */
KERNEL(f32_div, f32, u32)
{
    f32 a = in[2 * item], b = in[2 * item + 1];
    out[3 * item] = bits32(a / b);
    out[3 * item + 1] = bits32(1.0f / b);
    out[3 * item + 2] = bits32(a / 3.0f);
}
