#include "corpus.h"

/* Calls whose target is known only when they happen, and differs between lanes. */
NOINLINE u32 twice(u32 x)
{
    return x * 2 + 1;
}
NOINLINE u32 square(u32 x)
{
    return x * x;
}
NOINLINE u32 flip(u32 x)
{
    return ~x;
}
typedef u32 (*Operation)(u32);
static const Operation operations[3] = {twice, square, flip};
KERNEL(function_pointers, u32, u32)
{
    u32 x = in[item];
    for (u32 i = 0; i < 4; i++)
        x = operations[(x >> i) % 3](x);
    out[item] = x;
}
