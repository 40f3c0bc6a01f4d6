#include "corpus.h"

KERNEL(crc32, u8, u32)
{
    u32 crc = 0xFFFFFFFF;
    for (int i = 0; i < 12; i++) {
        crc ^= in[12 * item + i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    out[item] = ~crc;
}
