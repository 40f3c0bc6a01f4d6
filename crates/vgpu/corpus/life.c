#define GRID_X 32
#define GRID_Y 32
#define GRID_Z 1
#define TILE_X 32
#define TILE_Y 8
#define TILE_Z 1
#include "corpus.h"

/* One generation of Conway's game on a torus. */
GRID_KERNEL(life, u8, u8)
{
    int alive = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx != 0 || dy != 0)
                alive += in[((y + dy) & 31) * GRID_X + ((x + dx) & 31)] & 1;
    int here = y * GRID_X + x + z;
    out[here] = (u8)(alive == 3 || (alive == 2 && (in[here] & 1)));
}
