#include "corpus.h"

/* 256-bit addition and subtraction, the carry handed from word to word. */
KERNEL(carry, u64, u64)
{
    u64 up = 0, down = 0;
    for (int word = 0; word < 4; word++) {
        u64 a = in[8 * item + word], b = in[8 * item + 4 + word];
        unsigned long part, sum;
        u64 over = __builtin_uaddl_overflow(a, b, &part);
        over |= __builtin_uaddl_overflow(part, up, &sum);
        up = over;
        out[8 * item + word] = sum;
        u64 under = __builtin_usubl_overflow(a, b, &part);
        under |= __builtin_usubl_overflow(part, down, &sum);
        down = under;
        out[8 * item + 4 + word] = sum;
    }
}
