#include "corpus.h"

KERNEL(f32_arith, f32, u32)
{
    f32 a = in[3 * item], b = in[3 * item + 1], c = in[3 * item + 2];
    GLOBAL u32 *to = out + 6 * item;
    to[0] = bits32(a + b);
    to[1] = bits32(a - b);
    to[2] = bits32(a * b);
    to[3] = bits32(a * b + c);
    to[4] = bits32(-a * 2.0f - c);
    to[5] = bits32((a + b) * (b - c));
}
