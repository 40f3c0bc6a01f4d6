#include "corpus.h"

/* A table in the program, read at places that differ between lanes. */
static const u16 squares[64] = {
#define ROW(i) (i) * (i), (i + 1) * (i + 1), (i + 2) * (i + 2), (i + 3) * (i + 3)
    ROW(0),  ROW(4),  ROW(8),  ROW(12), ROW(16), ROW(20), ROW(24), ROW(28),
    ROW(32), ROW(36), ROW(40), ROW(44), ROW(48), ROW(52), ROW(56), ROW(60),
};
static const char words[4][8] = {"north", "east", "south", "west"};
KERNEL(const_table, u32, u32)
{
    u32 x = in[item], sum = 0;
    for (u32 i = 0; i < 32; i += 6)
        sum += squares[x >> i & 63];
    const char *word = words[x & 3];
    while (*word)
        sum = sum * 31 + (u8)*word++;
    out[item] = sum;
}
