#define GROUP 256
#include "corpus.h"

typedef struct {
    i32 values[GROUP];
} Shared;
GROUP_KERNEL(bitonic_sort, i32, i32, Shared)
{
    EACH(shared->values[lane] = in[group * GROUP + lane];);
    for (int size = 2; size <= GROUP; size *= 2)
        for (int step = size / 2; step > 0; step /= 2)
            EACH(int other = lane ^ step; if (other > lane) {
                i32 a = shared->values[lane], b = shared->values[other];
                if ((a > b) == ((lane & size) == 0)) {
                    shared->values[lane] = b;
                    shared->values[other] = a;
                }
            });
    EACH(out[group * GROUP + lane] = shared->values[lane];);
}
