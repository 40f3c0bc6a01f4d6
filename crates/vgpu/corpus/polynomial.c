#include "corpus.h"

/* A sine good to a few bits: range reduction and a polynomial, everything in plain arithmetic. */
INLINE f32 sine(f32 x)
{
    f32 turns = __builtin_rintf(x * 0.318309886f);
    f32 r = x - turns * 3.14159265f;
    f32 square = r * r;
    f32 p = r * (1.0f + square * (-0.16666667f + square * (0.0083333310f + square * -0.00019840874f)));
    return (i32)turns & 1 ? -p : p;
}
KERNEL(polynomial, f32, u32)
{
    f32 x = in[item] * 100.0f;
    out[item] = bits32(sine(x) * sine(x * 0.5f) + sine(x + 1.0f));
}
