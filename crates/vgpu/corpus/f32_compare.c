#include "corpus.h"

/* All comparisons, also with numbers that are none. */
KERNEL(f32_compare, f32, u32)
{
    f32 a = in[2 * item], b = in[2 * item + 1];
    u32 bits = 0;
    bits |= (u32)(a < b) | (u32)(a <= b) << 1 | (u32)(a == b) << 2 | (u32)(a != b) << 3;
    bits |= (u32)(a > b) << 4 | (u32)(a >= b) << 5 | (u32)!(a < b) << 6 | (u32)!(a <= b) << 7;
    bits |= (u32)!(a > b) << 8 | (u32)!(a >= b) << 9 | (u32)__builtin_isunordered(a, b) << 10;
    bits |= (u32)__builtin_islessgreater(a, b) << 11;
    out[item] = bits;
}
