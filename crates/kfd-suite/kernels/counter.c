#include "device.h"

/* A few workgroups that stay and count together: the order of increments does not matter, their number does. */
KERNEL counter(GLOBAL u32 *total, u32 increments)
{
    for (u32 i = 0; i < increments; i++)
        atomic_add(total, LANE + 1);
}
