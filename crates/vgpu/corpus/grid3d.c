#define GRID_X 12
#define GRID_Y 10
#define GRID_Z 6
#define TILE_X 4
#define TILE_Y 5
#define TILE_Z 3
#include "corpus.h"

/* Every index of a three-dimensional grid. */
GRID_KERNEL(grid3d, u32, u32)
{
    int here = (z * GRID_Y + y) * GRID_X + x;
    int there = ((GRID_Z - 1 - z) * GRID_Y + (y + 3) % GRID_Y) * GRID_X + (x * 5) % GRID_X;
    out[here] = in[there] * (u32)(x + 1) + (u32)(y << 8 | z << 16);
}
