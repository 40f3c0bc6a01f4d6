#include "corpus.h"

/* Counters that many lanes change at once. The sum of what they found is known, whatever their order. */
KERNEL(atomic_add, u32, u32)
{
    u32 x = in[item];
    __atomic_fetch_add(&out[x % 16], x, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&out[16 + x % 3], x >> 7, __ATOMIC_RELAXED);
    u32 ticket = __atomic_fetch_add(&out[20], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&out[21], ticket, __ATOMIC_RELAXED);
}
