#include "corpus.h"

/* Every comparison of every width, as one bit each. */
#define SIX(a, b) ((u32)((a) < (b)) | (u32)((a) <= (b)) << 1 | (u32)((a) == (b)) << 2 | (u32)((a) != (b)) << 3 | \
                   (u32)((a) > (b)) << 4 | (u32)((a) >= (b)) << 5)
KERNEL(compare, u64, u32)
{
    u64 a = in[2 * item], b = in[2 * item + 1];
    GLOBAL u32 *to = out + 4 * item;
    to[0] = SIX(a, b) | SIX((i64)a, (i64)b) << 8;
    to[1] = SIX((u32)a, (u32)b) | SIX((i32)a, (i32)b) << 8;
    to[2] = SIX((u16)a, (u16)b) | SIX((i16)a, (i16)b) << 8;
    to[3] = SIX((u8)a, (u8)b) | SIX((i8)a, (i8)b) << 8;
}
