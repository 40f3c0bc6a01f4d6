#include "corpus.h"

/* Solutions of the six queens problem below a first row: a search with an explicit stack. */
KERNEL(queens, u32, u32)
{
    u32 columns[8], left[8], right[8], free[8], found = 0;
    u32 first = 1u << in[item] % 6;
    int depth = 1;
    columns[1] = first;
    left[1] = first << 1;
    right[1] = first >> 1;
    free[1] = 63 & ~(columns[1] | left[1] | right[1]);
    while (depth > 0) {
        if (free[depth] == 0) {
            depth--;
            continue;
        }
        u32 place = free[depth] & -free[depth];
        free[depth] ^= place;
        if (depth == 5) {
            found++;
            continue;
        }
        columns[depth + 1] = columns[depth] | place;
        left[depth + 1] = (left[depth] | place) << 1;
        right[depth + 1] = (right[depth] | place) >> 1;
        depth++;
        free[depth] = 63 & ~(columns[depth] | left[depth] | right[depth]);
    }
    out[item] = found;
}
