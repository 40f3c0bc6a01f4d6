#include "corpus.h"

KERNEL(div_u64, u64, u64)
{
    u64 a = in[2 * item], b = in[2 * item + 1];
    if (b == 0)
        b = 1;
    out[2 * item] = a / b;
    out[2 * item + 1] = a % b;
}
