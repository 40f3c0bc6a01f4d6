#include "corpus.h"

KERNEL(f64_sqrt, f64, u64)
{
    out[item] = bits64(__builtin_sqrt(in[item]));
}
