#include "corpus.h"

static const char alphabet[64] = {
    'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', 'P', 'Q', 'R', 'S', 'T', 'U', 'V',
    'W', 'X', 'Y', 'Z', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', 'p', 'q', 'r',
    's', 't', 'u', 'v', 'w', 'x', 'y', 'z', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '+', '/',
};
KERNEL(base64, u8, u8)
{
    u32 three = (u32)in[3 * item] << 16 | (u32)in[3 * item + 1] << 8 | in[3 * item + 2];
    for (int i = 0; i < 4; i++)
        out[4 * item + i] = (u8)alphabet[three >> (18 - 6 * i) & 63];
}
