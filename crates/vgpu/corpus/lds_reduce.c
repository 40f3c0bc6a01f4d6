#define GROUP 256
#include "corpus.h"

typedef struct {
    i32 sums[GROUP];
} Shared;
GROUP_KERNEL(lds_reduce, i32, i32, Shared)
{
    EACH(shared->sums[lane] = in[group * GROUP + lane];);
    for (int half = GROUP / 2; half > 0; half /= 2)
        EACH(if (lane < half) shared->sums[lane] = wrap_add(shared->sums[lane], shared->sums[lane + half]););
    EACH(if (lane == 0) out[group] = shared->sums[0];);
}
