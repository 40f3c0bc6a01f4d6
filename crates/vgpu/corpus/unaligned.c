#include "corpus.h"

/* Numbers at any address. */
KERNEL(unaligned, u8, u64)
{
    u32 word;
    u64 wide;
    u16 half;
    GLOBAL const u8 *from = in + 13 * item;
    __builtin_memcpy(&word, from + 1, 4);
    __builtin_memcpy(&wide, from + 3, 8);
    __builtin_memcpy(&half, from + 11, 2);
    out[2 * item] = wide + word;
    u64 mixed = wide * half ^ word;
    __builtin_memcpy((GLOBAL u8 *)out + 16 * item + 9, &mixed, 7);
}
