#include "corpus.h"

/* Sixteen numbers to bytes with a common scale, and back. */
KERNEL(quantise, f32, u32)
{
    f32 largest = 0;
    for (int i = 0; i < 16; i++)
        largest = __builtin_fmaxf(largest, __builtin_fabsf(in[16 * item + i]));
    f32 scale = largest > 0 ? 127.0f / largest : 1.0f;
    f32 error = 0;
    u32 packed[4] = {0, 0, 0, 0};
    for (int i = 0; i < 16; i++) {
        f32 x = in[16 * item + i];
        i32 q = (i32)__builtin_rintf(x * scale);
        q = q > 127 ? 127 : q < -127 ? -127 : q;
        packed[i / 4] |= (u32)(u8)q << 8 * (i % 4);
        f32 miss = x - (f32)q / scale;
        error += miss * miss;
    }
    for (int i = 0; i < 4; i++)
        out[5 * item + i] = packed[i];
    out[5 * item + 4] = bits32(error);
}
