#include "corpus.h"

/* A filter over sixteen samples, with the taps in the program. */
static const f32 taps[16] = {
    -0.0012f, 0.0034f, -0.0078f, 0.0156f, -0.0291f, 0.0558f, -0.1219f, 0.5001f,
    0.5001f, -0.1219f, 0.0558f, -0.0291f, 0.0156f, -0.0078f, 0.0034f, -0.0012f,
};
KERNEL(fir, f32, u32)
{
    f32 sum = 0;
    for (int i = 0; i < 16; i++)
        sum += taps[i] * in[item + i];
    out[item] = bits32(sum);
}
