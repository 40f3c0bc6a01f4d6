#include "device.h"

/* Runs as long as it is told. The recurrence contracts, so a long run is as checkable as a short one. */
KERNEL spin(GLOBAL float *out, u32 iterations)
{
    u32 i = GROUP * 64 + LANE;
    float target = (float)(i + 1);
    float value = 0.0f;
    for (u32 step = 0; step < iterations; step++) {
        value = value * 0.5f + target;
        __asm__ volatile("" : "+v"(value));
    }
    out[i] = value;
}
