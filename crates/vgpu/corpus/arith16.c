#include "corpus.h"

/* Short integers, signed and not. */
KERNEL(arith16, u16, u16)
{
    u16 a = in[2 * item], b = in[2 * item + 1];
    i16 sa = (i16)a, sb = (i16)b;
    GLOBAL u16 *to = out + 8 * item;
    to[0] = (u16)(a + b);
    to[1] = (u16)(a - b);
    to[2] = (u16)((u32)a * b);
    to[3] = (u16)(sa * sb >> 8);
    to[4] = (u16)(sa > sb ? sa : sb);
    to[5] = a > b ? a : b;
    to[6] = (u16)(sa >> (b & 15));
    to[7] = (u16)(a << (b & 15));
}
