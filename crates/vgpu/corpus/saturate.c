#include "corpus.h"

KERNEL(saturate, i32, i32)
{
    i32 a = in[2 * item], b = in[2 * item + 1];
    GLOBAL i32 *to = out + 8 * item;
    to[0] = __builtin_elementwise_add_sat(a, b);
    to[1] = __builtin_elementwise_sub_sat(a, b);
    to[2] = (i32)__builtin_elementwise_add_sat((u32)a, (u32)b);
    to[3] = (i32)__builtin_elementwise_sub_sat((u32)a, (u32)b);
    to[4] = __builtin_elementwise_add_sat((i16)a, (i16)b);
    to[5] = __builtin_elementwise_sub_sat((u16)a, (u16)b);
    to[6] = __builtin_elementwise_add_sat((i8)a, (i8)b);
    to[7] = __builtin_elementwise_add_sat((u8)a, (u8)b);
}
