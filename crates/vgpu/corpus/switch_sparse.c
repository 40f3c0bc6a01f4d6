#include "corpus.h"

KERNEL(switch_sparse, u32, u32)
{
    u32 x = in[item], result;
    switch (x) {
    case 0:
        result = 100;
        break;
    case 31:
        result = 200;
        break;
    case 0x7FFF:
        result = 300;
        break;
    case 0x80000000:
        result = 400;
        break;
    case 0xFFFFFFFF:
        result = 500;
        break;
    default:
        result = x > 0x10000 ? x % 97 : x + 1;
        break;
    }
    out[item] = result;
}
