#define GROUP 128
#include "corpus.h"

/* A running sum, twice as far with each step. */
typedef struct {
    u32 a[GROUP], b[GROUP];
} Shared;
GROUP_KERNEL(lds_scan, u32, u32, Shared)
{
    EACH(shared->a[lane] = in[group * GROUP + lane];);
    for (int reach = 1; reach < GROUP; reach *= 2) {
        EACH(shared->b[lane] = shared->a[lane] + (lane >= reach ? shared->a[lane - reach] : 0););
        EACH(shared->a[lane] = shared->b[lane];);
    }
    EACH(out[group * GROUP + lane] = shared->a[lane];);
}
