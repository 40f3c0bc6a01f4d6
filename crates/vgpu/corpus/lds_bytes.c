#define GROUP 64
#include "corpus.h"

/* Local memory in every width. */
typedef struct {
    u8 bytes[GROUP * 8];
    u16 shorts[GROUP * 2];
    u64 wide[GROUP];
    f64 numbers[GROUP];
} Shared;
GROUP_KERNEL(lds_bytes, u64, u64, Shared)
{
    EACH(u64 x = in[group * GROUP + lane];
         for (int i = 0; i < 8; i++) shared->bytes[i * GROUP + lane] = (u8)(x >> 8 * i);
         shared->shorts[2 * lane] = (u16)x; shared->shorts[2 * lane + 1] = (u16)(x >> 48); shared->wide[lane] = x;
         shared->numbers[lane] = (f64)(u32)x;);
    EACH(u64 sum = 0; for (int i = 0; i < 8; i++) sum = sum << 8 | shared->bytes[lane * 8 + i];
         sum ^= (u64)(i16)shared->shorts[(lane * 5) % (GROUP * 2)] * 3; sum += shared->wide[GROUP - 1 - lane];
         out[2 * (group * GROUP + lane)] = sum;
         out[2 * (group * GROUP + lane) + 1] = bits64(shared->numbers[lane] + shared->numbers[(lane + 7) % GROUP]););
}
