#define GROUP 256
#include "corpus.h"

typedef struct {
    u32 tile[16][17];
} Shared;
GROUP_KERNEL(lds_transpose, u32, u32, Shared)
{
    EACH(shared->tile[lane / 16][lane % 16] = in[group * GROUP + lane];);
    EACH(out[group * GROUP + lane] = shared->tile[lane % 16][lane / 16];);
}
