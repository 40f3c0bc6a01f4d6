#include "corpus.h"

KERNEL(f32_sqrt, f32, u32)
{
    f32 a = in[item];
    out[2 * item] = bits32(__builtin_sqrtf(a));
    out[2 * item + 1] = bits32(1.0f / __builtin_sqrtf(a < 0 ? -a : a));
}
