#include "corpus.h"

/* Bytes, signed and not: results wrap at eight bits. */
KERNEL(arith8, u8, u8)
{
    u8 a = in[2 * item], b = in[2 * item + 1];
    i8 sa = (i8)a, sb = (i8)b;
    GLOBAL u8 *to = out + 8 * item;
    to[0] = (u8)(a + b);
    to[1] = (u8)(a - b);
    to[2] = (u8)(a * b);
    to[3] = (u8)(sa * sb >> 4);
    to[4] = (u8)(sa < sb ? sa : sb);
    to[5] = a < b ? a : b;
    to[6] = (u8)(sa >> (b & 7));
    to[7] = (u8)(a >> (b & 7));
}
