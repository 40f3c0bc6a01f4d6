#include "device.h"

static const u32 primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
static const u32 squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
static const u32 powers[8] = {1, 2, 4, 8, 16, 32, 64, 128};

/* The addresses are known only when the program is loaded: the loader has to write them here. */
static const u32 *const volatile known[3] = {primes, squares, powers};

KERNEL tables(GLOBAL const u32 *in, GLOBAL u32 *out, u32 n)
{
    u32 i = GROUP * 64 + LANE;
    if (i < n)
        out[i] = known[in[i] % 3][in[i] / 3 % 8];
}
