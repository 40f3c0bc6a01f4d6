#include "corpus.h"

KERNEL(bitfield, u32, u32)
{
    u32 a = in[2 * item], b = in[2 * item + 1];
    u32 from = b & 31, width = b >> 8 & 31;
    u32 mask = (1u << width) - 1;
    GLOBAL u32 *to = out + 5 * item;
    to[0] = a >> from & mask;
    to[1] = (u32)((i32)(a << 11) >> 19);
    to[2] = (a & ~(mask << from)) | (b & mask) << from;
    to[3] = a >> 8 & 0xFFF;
    to[4] = (a & 0xFF00FF00) >> 8 | (b & 0x00FF00FF) << 8;
}
