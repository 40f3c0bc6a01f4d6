#include "corpus.h"

/* Lanes exchange with ever nearer ones until all have the sum. */
typedef struct {
    i32 unused;
} Shared;
GROUP_KERNEL(wave_butterfly, i32, i32, Shared)
{
    PRIVATE(i32, value);
    PRIVATE(i32, other);
    PRIVATE(i32, turned);
    (void)shared;
    EACH(MY(value) = in[group * GROUP + lane];);
    for (int distance = WAVE / 2; distance > 0; distance /= 2) {
        SHUFFLE(other, value, lane ^ distance);
        EACH(MY(value) = wrap_add(MY(value), wrap_mul(MY(other), distance)););
    }
    SHUFFLE(turned, value, 63 - lane * 3);
    EACH(out[2 * (group * GROUP + lane)] = MY(value); out[2 * (group * GROUP + lane) + 1] = MY(turned););
}
