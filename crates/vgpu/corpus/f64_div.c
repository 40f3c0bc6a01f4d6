#include "corpus.h"

KERNEL(f64_div, f64, u64)
{
    f64 a = in[2 * item], b = in[2 * item + 1];
    out[2 * item] = bits64(a / b);
    out[2 * item + 1] = bits64(1.0 / b);
}
