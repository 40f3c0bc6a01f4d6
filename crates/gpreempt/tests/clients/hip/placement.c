/* Where the groups of a kernel run: streams that are limited to some compute units. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* Compute units by XCC, shader engine, shader array and number. */
enum { XCCS = 16, PLACES = XCCS * 256, GROUPS = 512 };

/* Runs a grid and marks the compute units on which its groups were. Returns their number. */
static u32 run_on(hipStream_t stream, char seen[PLACES])
{
    static u32 found[2 * GROUPS];
    u32 count = 0;
    void *device = on_device(sizeof found);
    LAUNCH(stream, "where", GROUPS * 64, 64, &device);
    MUST(hipStreamSynchronize(stream));
    MUST(hipMemcpy(found, device, sizeof found, hipMemcpyDeviceToHost));
    MUST(hipFree(device));
    memset(seen, 0, PLACES);
    for (u32 i = 0; i < GROUPS; i++) {
        u32 place = found[2 * i + 1] % XCCS << 8 | (found[2 * i] >> 8 & 0xff);
        count += !seen[place];
        seen[place] = 1;
    }
    return count;
}

/* Two streams share the compute units: one has every third, the other the rest. */
u64 cu_masks(u32 seed)
{
    (void)seed;
    static char all[PLACES], some[PLACES], rest[PLACES];
    enum { WORDS = 10 };
    u32 mask[2][WORDS], wanted = 0;
    hipStream_t streams[2];
    u32 total = run_on(NULL, all);
    CHECK(total >= 2 && total <= 32 * WORDS);
    memset(mask, 0, sizeof mask);
    for (u32 i = 0; i < total; i++) {
        mask[i % 3 != 0][i / 32] |= 1u << i % 32;
        wanted += i % 3 == 0;
    }
    for (int i = 0; i < 2; i++)
        MUST(hipExtStreamCreateWithCUMask(&streams[i], (total + 31) / 32, mask[i]));
    CHECK(run_on(streams[0], some) == wanted);
    CHECK(run_on(streams[1], rest) == total - wanted);
    for (u32 i = 0; i < PLACES; i++)
        check(some[i] + rest[i] == all[i], "a compute unit belongs to one of the streams");
    for (int i = 0; i < 2; i++)
        MUST(hipStreamDestroy(streams[i]));
    /* How many there are depends on the gpu. */
    return 0;
}
