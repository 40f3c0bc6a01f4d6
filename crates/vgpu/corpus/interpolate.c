#include "corpus.h"

/* Between the entries of a table. */
static const f32 curve[17] = {
    0.0f, 0.0625f, 0.135f, 0.21f, 0.29f, 0.365f, 0.44f, 0.51f, 0.58f, 0.645f, 0.705f, 0.765f,
    0.82f, 0.87f, 0.915f, 0.96f, 1.0f,
};
KERNEL(interpolate, f32, u32)
{
    f32 x = in[item] * 8.0f + 8.0f;
    i32 index = (i32)x;
    index = index < 0 ? 0 : index > 15 ? 15 : index;
    f32 part = x - (f32)index;
    out[item] = bits32(curve[index] + part * (curve[index + 1] - curve[index]));
}
