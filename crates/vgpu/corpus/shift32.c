#include "corpus.h"

KERNEL(shift32, u32, u32)
{
    u32 a = in[2 * item], by = in[2 * item + 1] & 31;
    GLOBAL u32 *to = out + 5 * item;
    to[0] = a << by;
    to[1] = a >> by;
    to[2] = (u32)((i32)a >> by);
    to[3] = (a << by) + a;
    to[4] = (a >> by) & 0xFF;
}
