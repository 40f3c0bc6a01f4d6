#include "corpus.h"

KERNEL(div_i32, i32, i32)
{
    i32 a = in[2 * item], b = in[2 * item + 1];
    /* The smallest number divided by -1 has no result. */
    if (b == 0 || b == -1)
        b = 7;
    out[2 * item] = a / b;
    out[2 * item + 1] = a % b;
}
