#include "corpus.h"

/* Pointers that may lead anywhere: to buffers or to the stack. */
NOINLINE u32 total(const u32 *values, int count)
{
    u32 sum = 0;
    for (int i = 0; i < count; i++)
        sum = sum * 3 + values[i];
    return sum;
}
KERNEL(flat_pointers, u32, u32)
{
    u32 own[8];
    for (u32 i = 0; i < 8; i++)
        own[i] = in[8 * item] * i;
    const u32 *chosen = in[8 * item] & 1 ? own : (const u32 *)(in + 8 * item);
    out[item] = total(chosen, 8);
}
