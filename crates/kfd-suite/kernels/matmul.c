#include "device.h"

#define TILE 16

/* c = a * b for square matrices whose side is a multiple of the tile. */
KERNEL matmul(GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *c, u32 side)
{
    LOCAL float a_tile[TILE][TILE];
    LOCAL float b_tile[TILE][TILE];
    u32 row = GROUP_Y * TILE + ROW;
    u32 column = GROUP * TILE + LANE;
    float sum = 0.0f;
    for (u32 tile = 0; tile < side; tile += TILE) {
        a_tile[ROW][LANE] = a[row * side + tile + LANE];
        b_tile[ROW][LANE] = b[(tile + ROW) * side + column];
        barrier();
        for (u32 k = 0; k < TILE; k++)
            sum += a_tile[ROW][k] * b_tile[k][LANE];
        barrier();
    }
    c[row * side + column] = sum;
}
