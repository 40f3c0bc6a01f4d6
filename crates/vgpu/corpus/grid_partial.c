#define GRID_X 21
#define GRID_Y 7
#define GRID_Z 2
#define TILE_X 8
#define TILE_Y 4
#define TILE_Z 1
#include "corpus.h"

/* A grid that is no whole number of workgroups: the last ones are smaller. */
GRID_KERNEL(grid_partial, u32, u32)
{
    int here = (z * GRID_Y + y) * GRID_X + x;
    out[here] = in[here] ^ (u32)(x << 16 | y << 8 | z);
}
