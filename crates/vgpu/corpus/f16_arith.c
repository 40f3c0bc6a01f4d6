#include "corpus.h"

KERNEL(f16_arith, f16, u16)
{
    f16 a = in[2 * item], b = in[2 * item + 1];
    GLOBAL u16 *to = out + 6 * item;
    to[0] = bits16((f16)(a + b));
    to[1] = bits16((f16)(a - b));
    to[2] = bits16((f16)(a * b));
    to[3] = bits16((f16)(-a * b + (f16)1.0));
    to[4] = bits16(a < b ? a : b);
    to[5] = (u16)((a < b) | (a <= b) << 1 | (a == b) << 2 | (a != b) << 3);
}
