#include "corpus.h"

KERNEL(switch_dense, u32, u32)
{
    u32 x = in[item], acc = x;
    for (int i = 0; i < 6; i++) {
        switch (x & 7) {
        case 0:
            acc += 3;
            break;
        case 1:
            acc ^= x;
            /* fall through */
            __attribute__((fallthrough));
        case 2:
            acc *= 7;
            break;
        case 3:
            acc = rotate_left(acc, 5);
            break;
        case 4:
            acc -= x >> 3;
            break;
        case 5:
            acc = ~acc;
            break;
        case 6:
            acc |= 0x10101010;
            break;
        default:
            acc &= 0xFFF0FFFF;
            break;
        }
        x = x >> 3 | acc << 29;
    }
    out[item] = acc;
}
