#include "corpus.h"

KERNEL(rotate, u64, u64)
{
    u64 a = in[2 * item];
    u32 by = (u32)in[2 * item + 1];
    out[3 * item] = rotate_left((u32)a, by);
    out[3 * item + 1] = rotate_left_64(a, by);
    out[3 * item + 2] = rotate_left((u32)a, 7) ^ rotate_left((u32)a, 18) ^ (u32)a >> 3;
}
