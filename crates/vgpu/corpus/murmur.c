#include "corpus.h"

/* MurmurHash3 of twelve bytes. */
KERNEL(murmur, u32, u32)
{
    u32 hash = 0x9747B28C;
    for (int i = 0; i < 3; i++) {
        u32 block = rotate_left(in[3 * item + i] * 0xCC9E2D51, 15) * 0x1B873593;
        hash = rotate_left(hash ^ block, 13) * 5 + 0xE6546B64;
    }
    hash ^= 12;
    hash = (hash ^ hash >> 16) * 0x85EBCA6B;
    hash = (hash ^ hash >> 13) * 0xC2B2AE35;
    out[item] = hash ^ hash >> 16;
}
