#include "corpus.h"

KERNEL(arith64, u64, u64)
{
    u64 a = in[3 * item], b = in[3 * item + 1], c = in[3 * item + 2];
    GLOBAL u64 *to = out + 6 * item;
    to[0] = a + b - c;
    to[1] = a * b;
    to[2] = a * (u32)b + c;
    to[3] = (u64)((i64)(i32)a * (i32)b) + c;
    to[4] = (a & b) | (~a & c);
    to[5] = -a ^ b;
}
