#include "device.h"

/* Goes on until a word in memory says that it is enough, and says how far it came. A step that is lost, repeated or
 * spoilt changes where it ends; a flipped highest bit stays the only difference for ever, because the factor is odd. */
KERNEL walk(GLOBAL u32 *out, GLOBAL u32 *taken, GLOBAL u32 *enough, u32 steps)
{
    u32 i = GROUP * 64 + LANE;
    u32 value = i;
    u32 step = 0;
    do {
        for (u32 more = 0; more < 64; more++) {
            value = value * 1664525 + 1013904223;
            __asm__ volatile("" : "+v"(value));
        }
        step += 64;
    } while (step < steps || __scoped_atomic_load_n(enough, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM) == 0);
    out[i] = value;
    taken[i] = step;
}
