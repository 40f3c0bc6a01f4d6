#include "device.h"

/* One of many kernels that each continue where the one before ended, as training does.
 *
 * The value of a lane moves with every step and is pulled back a little, so it stays finite and still remembers each
 * push over hundreds of thousands of steps. Lanes of the same number move alike in all workgroups, which makes the
 * result cheap to compute elsewhere; the mark is different for every lane of the gpu and forgets nothing. Repeating a
 * part changes all of it.
 */
KERNEL advance(GLOBAL float *values, GLOBAL u32 *marks, GLOBAL u32 *counts, u32 kernel, u32 steps)
{
    u32 i = GROUP * 256 + LANE;
    float value = values[i];
    u32 mark = marks[i];
    u32 word = kernel * 0x9E3779B1u + 1;
    for (u32 step = 0; step < steps; step++) {
        word = word * 1664525u + 1013904223u;
        value = value * 0x1.ffff8p-1f + (float)((int)word >> 8);
        /* Both live in registers through the whole loop, and no step is folded into another. */
        __asm__ volatile("" : "+v"(value), "+v"(mark));
    }
    values[i] = value;
    marks[i] = mark * 1664525u + i + kernel;
    if (LANE == 0)
        atomic_add(&counts[GROUP], 1);
}
