#include "corpus.h"

/* A cube root in double precision. */
KERNEL(newton64, f64, u64)
{
    f64 x = in[item] * 1000.0, root = x < 0 ? -5.0 : 5.0;
    for (int i = 0; i < 12; i++)
        root = (2.0 * root + x / (root * root)) / 3.0;
    out[item] = bits64(root);
}
