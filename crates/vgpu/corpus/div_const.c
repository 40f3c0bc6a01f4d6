#include "corpus.h"

/* Divisions that compilers turn into multiplications. */
KERNEL(div_const, i32, i32)
{
    i32 a = in[item];
    u32 u = (u32)a;
    GLOBAL i32 *to = out + 8 * item;
    to[0] = a / 3;
    to[1] = a % 10;
    to[2] = a / 16;
    to[3] = a / -7;
    to[4] = (i32)(u / 7);
    to[5] = (i32)(u % 1000003u);
    to[6] = (i32)(u / 641);
    to[7] = (i32)((u64)u * u / 1000000007ul);
}
