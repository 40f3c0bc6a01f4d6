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
        distance += x > y ? (u32)(x - y) : (u32)(y - x);
    }
    out[4 * item] = both;
    out[4 * item + 1] = mixed;
    out[4 * item + 2] = (i32)none;
    out[4 * item + 3] = (i32)distance;
}
