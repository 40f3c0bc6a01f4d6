#include "corpus.h"

KERNEL(xorshift, u64, u64)
{
    u64 x = in[item] | 1, sum = 0;
    for (int i = 0; i < 20; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        sum += x * 0x2545F4914F6CDD1Dul;
    }
    out[item] = sum;
}
