#include "device.h"

static inline u16 half_bits(float value)
{
    return __builtin_bit_cast(u16, (_Float16)value);
}

/* Round to nearest, ties to even; not a number stays one. */
static inline u16 bfloat_bits(float value)
{
    u32 bits = __builtin_bit_cast(u32, value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (u16)(bits >> 16 | 0x40);
    return (u16)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

/* To half and bfloat16, and the half squared in half precision. */
KERNEL narrow(GLOBAL const float *in, GLOBAL u16 *halves, GLOBAL u16 *bfloats, GLOBAL u16 *squares, u32 n)
{
    u32 i = GROUP * 256 + LANE;
    if (i >= n)
        return;
    _Float16 half = (_Float16)in[i];
    halves[i] = half_bits(in[i]);
    bfloats[i] = bfloat_bits(in[i]);
    squares[i] = __builtin_bit_cast(u16, (_Float16)(half * half));
}
