#include "device.h"

#define TILE 16

/* Reads and writes whole rows: the tile turns in local memory. The extra column keeps its banks apart. */
KERNEL transpose(GLOBAL const u32 *in, GLOBAL u32 *out, u32 width, u32 height)
{
    LOCAL u32 tile[TILE][TILE + 1];
    u32 x = GROUP * TILE + LANE;
    u32 y = GROUP_Y * TILE + ROW;
    if (x < width && y < height)
        tile[ROW][LANE] = in[y * width + x];
    barrier();
    x = GROUP_Y * TILE + LANE;
    y = GROUP * TILE + ROW;
    if (x < height && y < width)
        out[y * height + x] = tile[LANE][ROW];
}
