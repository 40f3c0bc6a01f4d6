#include "corpus.h"

KERNEL(convert_f64, f64, u64)
{
    f64 a = in[item];
    GLOBAL u64 *to = out + 5 * item;
    to[0] = bits32((f32)a);
    to[1] = bits64((f64)(f32)a);
    to[2] = a > -2147483649.0 && a < 2147483648.0 ? (u64)(i32)a : 1;
    to[3] = a > -1.0 && a < 4294967296.0 ? (u32)a : 2;
    to[4] = bits64((f64)(i32)bits64(a) + (f64)(u32)(bits64(a) >> 32));
}
