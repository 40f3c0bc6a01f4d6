#include "corpus.h"

KERNEL(arith32, i32, i32)
{
    i32 a = in[3 * item], b = in[3 * item + 1], c = in[3 * item + 2];
    GLOBAL i32 *to = out + 6 * item;
    to[0] = wrap_add(wrap_add(a, b), c);
    to[1] = wrap_sub(a, b);
    to[2] = wrap_add(wrap_mul(a, b), c);
    to[3] = a < 0 ? wrap_sub(0, a) : a;
    to[4] = (a & b) | (~a & c);
    to[5] = a ^ b ^ c;
}
