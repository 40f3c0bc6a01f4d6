#include "corpus.h"

/* Numbers outside the range of the integer have no defined result and are kept away. */
KERNEL(convert_f32_i32, f32, u32)
{
    f32 a = in[item];
    GLOBAL u32 *to = out + 6 * item;
    int fits = a > -2147483648.0f && a < 2147483648.0f;
    int fits_unsigned = a > -1.0f && a < 4294967296.0f;
    to[0] = fits ? (u32)(i32)a : 1;
    to[1] = fits_unsigned ? (u32)a : 2;
    to[2] = bits32((f32)(i32)bits32(a));
    to[3] = bits32((f32)bits32(a));
    to[4] = bits32((f32)(u8)bits32(a) + (f32)(i16)(bits32(a) >> 16));
    to[5] = a > -32768.0f && a < 32767.0f ? (u32)(i16)a : 3;
}
