#include "corpus.h"

/* Structures given and returned by value. */
typedef struct {
    f32 x, y, z;
} Vector;
typedef struct {
    i64 big;
    i16 small;
    u8 bytes[5];
    i32 word;
} Mixed;
NOINLINE Vector cross(Vector a, Vector b)
{
    Vector v = {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
    return v;
}
NOINLINE Mixed stir(Mixed m, u32 by)
{
    m.big ^= (i64)by << 20;
    m.small = (i16)(m.small + by);
    m.bytes[by % 5]++;
    m.word = wrap_mul(m.word, 3);
    return m;
}
KERNEL(structs, f32, u32)
{
    Vector a = {in[6 * item], in[6 * item + 1], in[6 * item + 2]};
    Vector b = {in[6 * item + 3], in[6 * item + 4], in[6 * item + 5]};
    Vector c = cross(a, cross(b, a));
    Mixed m = {item, (i16)item, {1, 2, 3, 4, 5}, item * 7};
    for (u32 i = 0; i < 5; i++)
        m = stir(m, bits32(c.x) >> i);
    GLOBAL u32 *to = out + 6 * item;
    to[0] = bits32(c.x);
    to[1] = bits32(c.y);
    to[2] = bits32(c.z);
    to[3] = (u32)(m.big >> 16);
    to[4] = (u32)m.small ^ m.bytes[0] ^ (u32)m.bytes[3] << 16;
    to[5] = (u32)m.word;
}
