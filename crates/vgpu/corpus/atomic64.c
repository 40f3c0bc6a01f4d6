#include "corpus.h"

KERNEL(atomic64, u64, u64)
{
    u64 x = in[item];
    __atomic_fetch_add(&out[x & 3], x, __ATOMIC_RELAXED);
    __atomic_fetch_max(&out[4 + (x & 3)], x, __ATOMIC_RELAXED);
    __atomic_fetch_xor(&out[8 + (x & 3)], x, __ATOMIC_RELAXED);
    __atomic_fetch_min((GLOBAL i64 *)&out[12 + (x & 3)], (i64)x, __ATOMIC_RELAXED);
}
