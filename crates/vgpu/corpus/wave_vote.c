#include "corpus.h"

/* What the lanes of a wave have in common. */
typedef struct {
    i32 unused;
} Shared;
GROUP_KERNEL(wave_vote, i32, u64, Shared)
{
    PRIVATE(i32, flag);
    PRIVATE(i32, first);
    PRIVATE(u64, votes);
    (void)shared;
    EACH(MY(flag) = in[group * GROUP + lane] % 3 == 0;);
    BALLOT(votes, flag);
    EACH(MY(flag) = in[group * GROUP + lane];);
    FIRST(first, flag);
    EACH(u64 below = MY(votes) & ((1ul << lane) - 1); out[2 * (group * GROUP + lane)] = MY(votes);
         out[2 * (group * GROUP + lane) + 1] = (u64)__builtin_popcountl(below) << 32 | (u32)MY(first););
}
