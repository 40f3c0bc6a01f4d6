#include "corpus.h"

/* Accesses that must happen, in their order. */
KERNEL(volatiles, u32, u32)
{
    volatile u32 kept[4];
    for (u32 i = 0; i < 4; i++)
        kept[i] = in[item] >> i;
    GLOBAL volatile u32 *to = out + 2 * item;
    to[0] = kept[item & 3] + 1;
    to[1] = to[0] * kept[1];
    to[0] = to[1] ^ kept[3];
}
