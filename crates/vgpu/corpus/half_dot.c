#include "corpus.h"

/* Products of halves, summed in single precision. */
KERNEL(half_dot, f16, u32)
{
    f32 sum = 0;
    f16 coarse = 0;
    for (int i = 0; i < 8; i++) {
        f16 a = in[16 * item + i], b = in[16 * item + 8 + i];
        sum += (f32)a * (f32)b;
        coarse = (f16)(coarse + (f16)(a * b));
    }
    out[2 * item] = bits32(sum);
    out[2 * item + 1] = bits16(coarse);
}
