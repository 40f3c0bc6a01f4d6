/* What the debugger knows of kernel.s and of the program that launches it. */
#ifndef PLACES_H
#define PLACES_H

enum {
    /* The grid. */
    GROUPS = 3,
    GROUP_ITEMS = 128,
    WAVE_ITEMS = 64,
    ITEMS = GROUPS * GROUP_ITEMS,
    WAVES = ITEMS / WAVE_ITEMS,
    /* Bytes from the first instruction to the labels. */
    WAIT = 0x100,
    WAIT_END = 0x128,
    STEPS = 0x200,
    OVER = STEPS + 20,
    MARKED = 0x300,
    /* What s20 holds in the loop; v8 holds it plus the number of the work item in its workgroup. */
    KNOWN = 0x01234567,
    /* What s22 holds after the steps, without the instruction that the branch leaves out. */
    STEPPED = 12,
};

#endif
