#include "corpus.h"

/* Four products of bytes, as neural networks with small integers use them. */
KERNEL(dot_bytes, u32, i32)
{
    u32 a = in[2 * item], b = in[2 * item + 1];
    i32 both = 0, mixed = 0;
    u32 none = 0, distance = 0;
    for (int byte = 0; byte < 4; byte++) {
        u8 x = (u8)(a >> 8 * byte), y = (u8)(b >> 8 * byte);
        both += (i8)x * (i8)y;
        mixed += x * (i8)y;
        none += (u32)x * y;
        /* Not `x > y ? x - y : y - x`: clang 19 takes SDWA subtraction for commutative and computes x - y for both. */
        i32 difference = x - y;
        distance += (u32)(difference < 0 ? -difference : difference);
    }
    out[4 * item] = both;
    out[4 * item + 1] = mixed;
    out[4 * item + 2] = (i32)none;
    out[4 * item + 3] = (i32)distance;
}
