#include "corpus.h"

/* Choices that depend on each other. */
KERNEL(select, i32, i32)
{
    i32 a = in[3 * item], b = in[3 * item + 1], c = in[3 * item + 2];
    i32 low = a < b ? a : b, high = a < b ? b : a;
    i32 middle = c < low ? low : c > high ? high : c;
    i32 least = low < c ? low : c, most = high > c ? high : c;
    GLOBAL i32 *to = out + 4 * item;
    to[0] = middle;
    to[1] = least;
    to[2] = most;
    to[3] = (a > 0 && b > 0) || (c < 0 && a != b) ? wrap_sub(most, least) : wrap_add(most, least);
}
