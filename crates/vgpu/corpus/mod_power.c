#include "corpus.h"

/* A power modulo a prime, with 128-bit products. */
KERNEL(mod_power, u64, u64)
{
    const u64 prime = 0xFFFFFFFFFFFFFFC5ul;
    u64 base = in[2 * item], exponent = in[2 * item + 1] & 0xFFFF, result = 1;
    while (exponent) {
        unsigned __int128 square = (unsigned __int128)base * base;
        if (exponent & 1) {
            unsigned __int128 product = (unsigned __int128)result * base;
            /* 2^64 is 59 modulo the prime. */
            product = (product >> 64) * 59 + (u64)product;
            product = (product >> 64) * 59 + (u64)product;
            result = (u64)product;
            if (product >> 64)
                result += 59;
        }
        square = (square >> 64) * 59 + (u64)square;
        square = (square >> 64) * 59 + (u64)square;
        base = (u64)square;
        if (square >> 64)
            base += 59;
        exponent >>= 1;
    }
    out[item] = result % prime;
}
