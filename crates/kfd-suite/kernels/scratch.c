#include "device.h"

#define SLOTS 128

/* A private array indexed by data: it cannot live in registers. */
KERNEL scratch(GLOBAL const u32 *in, GLOBAL u32 *out, u32 n)
{
    u32 i = GROUP * 64 + LANE;
    if (i >= n)
        return;
    u32 slots[SLOTS];
    for (u32 slot = 0; slot < SLOTS; slot++)
        slots[slot] = slot * 0x01000193u;
    u32 value = in[i];
    for (u32 step = 0; step < 64; step++) {
        u32 from = value % SLOTS;
        u32 to = (value >> 8) % SLOTS;
        u32 kept = slots[from];
        slots[from] = slots[to] + step;
        slots[to] = kept ^ value;
        value = value * 1664525u + kept;
    }
    u32 sum = value;
    for (u32 slot = 0; slot < SLOTS; slot++)
        sum = (sum << 1 | sum >> 31) ^ slots[slot];
    out[i] = sum;
}
