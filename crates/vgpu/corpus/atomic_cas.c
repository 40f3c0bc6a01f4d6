#include "corpus.h"

/* An operation the hardware does not have, tried until no other work item came in between. */
KERNEL(atomic_cas, u32, u32)
{
    u32 x = in[item] % 1000 + 1;
    GLOBAL u32 *to = &out[item % 5];
    u32 seen = __atomic_load_n(to, __ATOMIC_RELAXED), next;
    do {
        next = (seen + x * 3) % 1000003u;
    } while (!__atomic_compare_exchange_n(to, &seen, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
