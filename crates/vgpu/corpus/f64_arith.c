#include "corpus.h"

KERNEL(f64_arith, f64, u64)
{
    f64 a = in[3 * item], b = in[3 * item + 1], c = in[3 * item + 2];
    GLOBAL u64 *to = out + 6 * item;
    to[0] = bits64(a + b);
    to[1] = bits64(a - b);
    to[2] = bits64(a * b);
    to[3] = bits64(a * b + c);
    to[4] = bits64(__builtin_fma(a, b, c));
    to[5] = bits64(__builtin_fma(a, -b, a * b));
}
