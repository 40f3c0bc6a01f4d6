#include "corpus.h"

/* Functions that stay functions: arguments and results through registers and stack. */
NOINLINE u32 mix(u32 a, u32 b)
{
    return rotate_left(a * 0x85EBCA6Bu, 13) ^ b;
}
NOINLINE u64 many(u32 a, u64 b, u32 c, i16 d, u64 e, f32 f, u32 g, u8 h, i64 i, u32 j, f64 k, u32 l)
{
    return a + b * c + (u64)(i64)d + (e ^ (u64)f) + mix(g, h) + (u64)i * j + (u64)k - l;
}
NOINLINE void change(u32 *value, u32 by)
{
    *value = mix(*value, by) + 1;
}
KERNEL(calls, u32, u64)
{
    u32 a = in[item], b = in[n - 1 - item];
    u32 value = mix(a, b);
    if (a & 1)
        change(&value, b);
    for (u32 i = 0; i < (b & 7); i++)
        change(&value, i);
    out[item] = many(a, b, value, (i16)a, ~(u64)b, (f32)(a & 0xFFF), b, (u8)a, -(i64)b, a, (f64)(b & 0xFFFF), value);
}
