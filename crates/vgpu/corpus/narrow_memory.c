#include "corpus.h"

/* Loads and stores of every width, signed and not, beside each other. */
KERNEL(narrow_memory, u8, u8)
{
    GLOBAL const u8 *from = in + 16 * item;
    GLOBAL u8 *to = out + 16 * item;
    i8 byte = (i8)from[1];
    i16 half = *(GLOBAL const i16 *)(from + 2);
    u16 word = *(GLOBAL const u16 *)(from + 4);
    i32 full = *(GLOBAL const i32 *)(from + 8);
    to[0] = (u8)(byte >> 2);
    to[1] = (u8)half;
    *(GLOBAL u16 *)(to + 2) = (u16)(word + byte);
    *(GLOBAL i32 *)(to + 4) = half * byte;
    *(GLOBAL i64 *)(to + 8) = (i64)full * half + word;
}
