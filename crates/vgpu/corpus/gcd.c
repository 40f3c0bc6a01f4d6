#include "corpus.h"

KERNEL(gcd, u32, u32)
{
    u32 a = in[2 * item], b = in[2 * item + 1];
    while (b != 0) {
        u32 rest = a % b;
        a = b;
        b = rest;
    }
    out[item] = a;
}
