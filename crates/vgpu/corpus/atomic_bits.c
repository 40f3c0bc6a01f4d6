#include "corpus.h"

KERNEL(atomic_bits, u32, u32)
{
    u32 x = in[item];
    __atomic_fetch_and(&out[x & 3], x | 0xFFFFF000u, __ATOMIC_RELAXED);
    __atomic_fetch_or(&out[4 + (x & 3)], 1u << (x >> 8 & 31), __ATOMIC_RELAXED);
    __atomic_fetch_xor(&out[8 + (x & 3)], x, __ATOMIC_RELAXED);
}
