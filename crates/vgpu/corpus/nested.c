#include "corpus.h"

/* Branches in branches in loops, with every way out of a loop. */
KERNEL(nested, i32, i32)
{
    i32 x = in[item], sum = 0;
    for (int i = 0; i < 20; i++) {
        if ((x ^ i) & 1) {
            if (x < 0) {
                sum = wrap_add(sum, i);
                if (sum > 60)
                    break;
            } else if (x & 4) {
                x = wrap_sub(x, 13);
                continue;
            } else {
                sum = wrap_sub(sum, 2 * i);
            }
        } else {
            for (int j = i; j < 8; j++) {
                if (((x >> j) & 3) == 3)
                    goto next;
                sum = wrap_add(sum, j);
            }
        }
        x = wrap_add(wrap_mul(x, 5), i);
    next:
        if (sum < -500) {
            out[item] = -1;
            return;
        }
    }
    out[item] = sum;
}
