/* Where things are: groups of a kernel in streams that are limited to some compute units, and managed memory. */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* Compute units by XCC, shader engine, shader array and number. */
enum { XCCS = 16, PLACES = XCCS * 256, GROUPS = 512 };

/*
 * Runs a grid until no more compute units come to light, and marks those on which its groups were. Returns their
 * number. A grid that is preempted goes on elsewhere, and may leave some out.
 */
static u32 run_on(hipStream_t stream, char seen[PLACES])
{
    enum { IN_VAIN = 8 };
    static u32 found[2 * GROUPS];
    u32 count = 0;
    void *device = on_device(sizeof found);
    memset(seen, 0, PLACES);
    for (u32 in_vain = 0; in_vain < IN_VAIN; in_vain++) {
        LAUNCH(stream, "where", GROUPS * 64, 64, &device);
        MUST(hipStreamSynchronize(stream));
        MUST(hipMemcpy(found, device, sizeof found, hipMemcpyDeviceToHost));
        for (u32 i = 0; i < GROUPS; i++) {
            u32 place = found[2 * i + 1] % XCCS << 8 | (found[2 * i] >> 8 & 0xff);
            if (seen[place])
                continue;
            seen[place] = 1;
            count++;
            in_vain = 0;
        }
    }
    MUST(hipFree(device));
    return count;
}

/* Two streams share the compute units: one has every third, the other the rest. */
u64 cu_masks(u32 seed)
{
    (void)seed;
    static char all[PLACES], some[PLACES], rest[PLACES];
    enum { WORDS = 10 };
    u32 mask[2][WORDS], wanted = 0;
    /*
     * Never destroyed: such a stream has a queue of its own, which HIP 7.2 destroys under a lock. The runtime then
     * waits for its thread that handles signals, and that waits for the lock if it is releasing the other stream.
     */
    static hipStream_t streams[2];
    u32 total = run_on(NULL, all);
    CHECK(total >= 2 && total <= 32 * WORDS);
    memset(mask, 0, sizeof mask);
    for (u32 i = 0; i < total; i++) {
        mask[i % 3 != 0][i / 32] |= 1u << i % 32;
        wanted += i % 3 == 0;
    }
    for (int i = 0; i < 2; i++)
        if (!streams[i])
            MUST(hipExtStreamCreateWithCUMask(&streams[i], (total + 31) / 32, mask[i]));
    CHECK(run_on(streams[0], some) == wanted);
    CHECK(run_on(streams[1], rest) == total - wanted);
    for (u32 i = 0; i < PLACES; i++)
        check(some[i] + rest[i] == all[i], "a compute unit belongs to one of the streams");
    /* How many there are depends on the gpu. */
    return 0;
}

/* An attribute of managed memory. */
static int attribute(const char *memory, size_t size, int which)
{
    int value = 77;
    MUST(hipMemRangeGetAttribute(&value, sizeof value, which, memory, size));
    return value;
}

/* Managed memory of which nothing has been said yet. */
static void *fresh(size_t size)
{
    void *memory;
    MUST(hipMallocManaged(&memory, size, hipMemAttachGlobal));
    CHECK(attribute(memory, size, hipMemRangeAttributeReadMostly) == 0);
    CHECK(attribute(memory, size, hipMemRangeAttributePreferredLocation) == hipInvalidDeviceId);
    CHECK(attribute(memory, size, hipMemRangeAttributeAccessedBy) == hipInvalidDeviceId);
    CHECK(attribute(memory, size, hipMemRangeAttributeLastPrefetchLocation) == hipInvalidDeviceId);
    return memory;
}

/* Managed memory, of which the program says where it belongs and who reads it; kernels do not care. */
u64 managed_places(u32 seed)
{
    enum { HALF = 3 * 4096, BOTH = 2 * HALF, WORDS = BOTH / sizeof(u32) };
    static u32 expected[WORDS];
    u32 words = WORDS, once = 1;
    void *memory = fresh(BOTH);
    char *low = memory, *high = low + HALF;
    MUST(hipMemAdvise(low, BOTH, hipMemAdviseSetReadMostly, 0));
    MUST(hipMemAdvise(high, HALF, hipMemAdviseUnsetReadMostly, 0));
    CHECK(attribute(low, HALF, hipMemRangeAttributeReadMostly) == 1);
    CHECK(attribute(low, BOTH, hipMemRangeAttributeReadMostly) == 0);

    MUST(hipMemAdvise(low, BOTH, hipMemAdviseSetPreferredLocation, 0));
    CHECK(attribute(low, BOTH, hipMemRangeAttributePreferredLocation) == 0);
    MUST(hipMemAdvise(high, HALF, hipMemAdviseSetPreferredLocation, hipCpuDeviceId));
    CHECK(attribute(low, HALF, hipMemRangeAttributePreferredLocation) == 0);
    CHECK(attribute(high, HALF, hipMemRangeAttributePreferredLocation) == hipCpuDeviceId);
    CHECK(attribute(low, BOTH, hipMemRangeAttributePreferredLocation) == hipInvalidDeviceId);
    MUST(hipMemAdvise(low, BOTH, hipMemAdviseUnsetPreferredLocation, 0));
    CHECK(attribute(high, HALF, hipMemRangeAttributePreferredLocation) == hipInvalidDeviceId);

    MUST(hipMemAdvise(low, BOTH, hipMemAdviseSetAccessedBy, 0));
    CHECK(attribute(low, BOTH, hipMemRangeAttributeAccessedBy) == 0);
    MUST(hipMemAdvise(high, HALF, hipMemAdviseUnsetAccessedBy, 0));
    CHECK(attribute(low, HALF, hipMemRangeAttributeAccessedBy) == 0);
    CHECK(attribute(low, BOTH, hipMemRangeAttributeAccessedBy) == hipInvalidDeviceId);

    fill(memory, WORDS, seed);
    for (u32 i = 0; i < WORDS; i++) {
        u32 value = ((u32 *)memory)[i];
        value ^= value << 13;
        value ^= value >> 17;
        expected[i] = value ^ value << 5;
    }
    MUST(hipMemPrefetchAsync(low, BOTH, 0, NULL));
    LAUNCH(NULL, "churn", WORDS, 256, &memory, &words, &once);
    MUST(hipDeviceSynchronize());
    CHECK(attribute(low, BOTH, hipMemRangeAttributeLastPrefetchLocation) == 0);
    MUST(hipMemPrefetchAsync(high, HALF, hipCpuDeviceId, NULL));
    MUST(hipDeviceSynchronize());
    CHECK(attribute(low, HALF, hipMemRangeAttributeLastPrefetchLocation) == 0);
    CHECK(attribute(high, HALF, hipMemRangeAttributeLastPrefetchLocation) == hipCpuDeviceId);
    CHECK(attribute(low, BOTH, hipMemRangeAttributeLastPrefetchLocation) == hipInvalidDeviceId);
    u64 sum = same(memory, expected, BOTH);
    /* Nothing is left of it when other memory takes its place. */
    MUST(hipMemAdvise(memory, BOTH, hipMemAdviseSetReadMostly, 0));
    MUST(hipMemAdvise(memory, BOTH, hipMemAdviseSetPreferredLocation, 0));
    MUST(hipMemPrefetchAsync(memory, BOTH, 0, NULL));
    MUST(hipDeviceSynchronize());
    MUST(hipFree(memory));
    MUST(hipFree(fresh(BOTH)));
    return sum;
}
