#include "corpus.h"

/* Two halves at once. */
typedef f16 half2 __attribute__((ext_vector_type(2)));
KERNEL(f16_packed, f16, u16)
{
    half2 a = {in[4 * item], in[4 * item + 1]}, b = {in[4 * item + 2], in[4 * item + 3]};
    half2 sum = a + b, product = a * b, mixed = sum * b.yx - product;
    GLOBAL u16 *to = out + 6 * item;
    to[0] = bits16(sum.x);
    to[1] = bits16(sum.y);
    to[2] = bits16(product.x);
    to[3] = bits16(product.y);
    to[4] = bits16(mixed.x);
    to[5] = bits16(mixed.y);
}
