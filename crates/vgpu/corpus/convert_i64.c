#include "corpus.h"

KERNEL(convert_i64, u64, u64)
{
    u64 a = in[item];
    f64 x = __builtin_bit_cast(f64, a);
    GLOBAL u64 *to = out + 8 * item;
    to[0] = bits64((f64)a);
    to[1] = bits64((f64)(i64)a);
    to[2] = bits32((f32)a);
    to[3] = bits32((f32)(i64)a);
    to[4] = x > -9.2e18 && x < 9.2e18 ? (u64)(i64)x : 1;
    to[5] = x > -1.0 && x < 1.8e19 ? (u64)x : 2;
    f32 y = (f32)(i64)(a >> 20);
    to[6] = (u64)(i64)y;
    to[7] = (u64)y;
}
