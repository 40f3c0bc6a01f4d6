#include "corpus.h"

/* Words, the longest of them, vowels and digits of a line. */
KERNEL(text_scan, u8, u32)
{
    u32 words = 0, longest = 0, length = 0, vowels = 0, number = 0;
    for (int i = 0; i < 32; i++) {
        u8 c = (u8)(in[32 * item + i] % 95 + 32);
        u8 lower = c >= 'A' && c <= 'Z' ? (u8)(c | 32) : c;
        if (lower >= 'a' && lower <= 'z') {
            words += length == 0;
            length++;
            longest = length > longest ? length : longest;
            if (lower == 'a' || lower == 'e' || lower == 'i' || lower == 'o' || lower == 'u')
                vowels++;
        } else {
            length = 0;
        }
        if (c >= '0' && c <= '9')
            number = number * 10 + (u32)(c - '0');
    }
    out[2 * item] = words << 16 | longest << 8 | vowels;
    out[2 * item + 1] = number;
}
