#define GRID_X 48
#define GRID_Y 20
#define GRID_Z 1
#define TILE_X 16
#define TILE_Y 4
#define TILE_Z 1
#include "corpus.h"

/* Five points, the edges clamped. */
INLINE f32 at(GLOBAL const f32 *in, int x, int y)
{
    x = x < 0 ? 0 : x >= GRID_X ? GRID_X - 1 : x;
    y = y < 0 ? 0 : y >= GRID_Y ? GRID_Y - 1 : y;
    return in[y * GRID_X + x];
}
GRID_KERNEL(stencil, f32, u32)
{
    f32 around = at(in, x - 1, y) + at(in, x + 1, y) + at(in, x, y - 1) + at(in, x, y + 1);
    out[y * GRID_X + x + z] = bits32(0.5f * at(in, x, y) + 0.125f * around);
}
