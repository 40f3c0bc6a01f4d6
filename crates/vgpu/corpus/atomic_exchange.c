#include "corpus.h"

/* What is taken out and what is left at the end are together what was put in. */
KERNEL(atomic_exchange, u32, u32)
{
    u32 x = in[item] & 0xFFFF;
    u32 before = __atomic_exchange_n(&out[0], x, __ATOMIC_RELAXED);
    __atomic_fetch_add(&out[1], before, __ATOMIC_RELAXED);
    __atomic_fetch_add(&out[2], x, __ATOMIC_RELAXED);
    /* The one value that depends on the order is made to disappear. */
    if (__atomic_add_fetch(&out[3], 1, __ATOMIC_ACQ_REL) == (u32)n) {
        u32 last = __atomic_exchange_n(&out[0], 0, __ATOMIC_ACQ_REL);
        __atomic_fetch_add(&out[1], last, __ATOMIC_ACQ_REL);
    }
}
