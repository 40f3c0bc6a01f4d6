#include "corpus.h"

/* Lanes leave the loop at different times. */
KERNEL(collatz, u32, u32)
{
    u32 x = in[item] % 10000 + 1, steps = 0;
    while (x != 1 && steps < 400) {
        x = x & 1 ? 3 * x + 1 : x / 2;
        steps++;
    }
    out[item] = steps;
}
