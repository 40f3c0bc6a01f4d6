#include "corpus.h"

KERNEL(atomic_min_max, i32, i32)
{
    i32 x = in[item];
    __atomic_fetch_min(&out[x & 7], x, __ATOMIC_RELAXED);
    __atomic_fetch_max(&out[8 + (x & 7)], x, __ATOMIC_RELAXED);
    __atomic_fetch_min((GLOBAL u32 *)&out[16 + (x & 7)], (u32)x, __ATOMIC_RELAXED);
    __atomic_fetch_max((GLOBAL u32 *)&out[24 + (x & 7)], (u32)x, __ATOMIC_RELAXED);
}
