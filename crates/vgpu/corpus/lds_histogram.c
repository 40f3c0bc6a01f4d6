#define GROUP 256
#include "corpus.h"

/* Counted in local memory first, then added to the bins of all workgroups. */
typedef struct {
    u32 bins[32];
    i32 least;
    u64 wide;
} Shared;
GROUP_KERNEL(lds_histogram, u8, u32, Shared)
{
    EACH(if (lane < 32) shared->bins[lane] = 0;
         if (lane == 0) {
             shared->least = 1000;
             shared->wide = 0;
         });
    EACH(u8 x = in[group * GROUP + lane]; __atomic_fetch_add(&shared->bins[x % 32], 1, __ATOMIC_RELAXED);
         __atomic_fetch_min(&shared->least, (i32)x - 100, __ATOMIC_RELAXED);
         __atomic_fetch_add(&shared->wide, (u64)x << 30, __ATOMIC_RELAXED););
    EACH(if (lane < 32) __atomic_fetch_add(&out[lane], shared->bins[lane], __ATOMIC_RELAXED);
         if (lane == 0) {
             __atomic_fetch_add(&out[32], (u32)shared->least, __ATOMIC_RELAXED);
             __atomic_fetch_add(&out[33], (u32)(shared->wide >> 20), __ATOMIC_RELAXED);
         });
}
