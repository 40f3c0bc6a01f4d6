#include "corpus.h"

/* Bytes and shorts on the stack, at places that data chooses. */
KERNEL(stack_bytes, u8, u32)
{
    u8 bytes[40];
    u16 shorts[20];
    for (int i = 0; i < 40; i++)
        bytes[i] = (u8)(in[item * 16 + i % 16] + i);
    for (int i = 0; i < 20; i++)
        shorts[i] = (u16)(bytes[i] << 8 | bytes[39 - i]);
    u32 sum = 0;
    for (int i = 0; i < 16; i++) {
        u32 at = in[item * 16 + i] % 20;
        sum = rotate_left(sum, 3) + shorts[at] * bytes[at * 2];
        bytes[at] ^= (u8)sum;
        shorts[(at + 5) % 20] = (u16)(sum >> 4);
    }
    out[item] = sum;
}
