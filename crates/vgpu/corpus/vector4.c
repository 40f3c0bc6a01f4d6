#include "corpus.h"

typedef f32 float4 __attribute__((ext_vector_type(4)));
typedef i32 int4 __attribute__((ext_vector_type(4)));
KERNEL(vector4, f32, u32)
{
    float4 a = *(GLOBAL const float4 *)(in + 8 * item), b = *(GLOBAL const float4 *)(in + 8 * item + 4);
    float4 c = a * b.wzyx + 0.5f;
    int4 less = a < b;
    c = less ? c : b - a;
    float4 d = {c.x + c.y, c.z + c.w, a.x * b.y - a.y * b.x, (f32)(less.x + less.y + less.z + less.w)};
    for (int i = 0; i < 4; i++) {
        out[8 * item + i] = bits32(c[i]);
        out[8 * item + 4 + i] = bits32(d[i]);
    }
}
