#include "corpus.h"

KERNEL(f64_select, f64, u64)
{
    f64 a = in[2 * item], b = in[2 * item + 1];
    GLOBAL u64 *to = out + 6 * item;
    to[0] = bits64_one_zero(__builtin_fmin(a, b));
    to[1] = bits64_one_zero(__builtin_fmax(a, b));
    to[2] = (u64)(a < b) | (u64)(a == b) << 1 | (u64)!(a >= b) << 2 | (u64)__builtin_isunordered(a, b) << 3;
    to[3] = bits64(__builtin_floor(a));
    to[4] = bits64(__builtin_trunc(b));
    to[5] = bits64(__builtin_rint(a));
}
