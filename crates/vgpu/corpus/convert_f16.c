#include "corpus.h"

/* To half precision, ties and overflow included, and back. */
KERNEL(convert_f16, f32, u32)
{
    f32 a = in[item];
    u16 half = bits16((f16)a);
    GLOBAL u32 *to = out + 5 * item;
    to[0] = half;
    to[1] = bits32((f32)(f16)a);
    to[2] = bits16((f16)(i16)bits32(a));
    to[3] = bits16((f16)((f64)a * 1.0000001));
    to[4] = a > -2000.0f && a < 2000.0f ? (u32)(i32)(f16)a : 1;
}
