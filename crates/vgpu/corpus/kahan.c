#include "corpus.h"

/* A sum that keeps what additions lose. */
KERNEL(kahan, f32, u32)
{
    f32 sum = 0, lost = 0;
    for (int i = 0; i < 20; i++) {
        f32 value = in[20 * item + i] - lost;
        f32 next = sum + value;
        lost = next - sum - value;
        sum = next;
    }
    out[2 * item] = bits32(sum);
    out[2 * item + 1] = bits32(lost);
}
