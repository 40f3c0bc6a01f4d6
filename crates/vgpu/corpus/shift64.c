#include "corpus.h"

KERNEL(shift64, u64, u64)
{
    u64 a = in[2 * item];
    u32 by = (u32)in[2 * item + 1] & 63;
    GLOBAL u64 *to = out + 4 * item;
    to[0] = a << by;
    to[1] = a >> by;
    to[2] = (u64)((i64)a >> by);
    to[3] = (a << (by & 7)) + a;
}
