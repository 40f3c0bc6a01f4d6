/* Jobs that move data and order work: copies, fills, streams, events. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

enum { N = 50000, SIZE = N * sizeof(u32) };

static hipStream_t stream(void)
{
    hipStream_t stream;
    MUST(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    return stream;
}

static u32 *pinned(size_t size)
{
    void *memory;
    MUST(hipHostMalloc(&memory, size, 0));
    return memory;
}

/* Out, across and back in one stream, with a kernel in between: y = a x + y. */
static u64 round_trip(u32 *x, u32 *y, u32 seed)
{
    u32 a = next(&seed), n = N;
    fill(x, N, seed);
    fill(y, N, ~seed);
    u32 *expected = on_host(SIZE);
    for (u32 i = 0; i < N; i++)
        expected[i] = a * x[i] + y[i];
    hipStream_t order = stream();
    void *dx = on_device(SIZE), *dy = on_device(SIZE), *other = on_device(SIZE);
    MUST(hipMemcpyAsync(dx, x, SIZE, hipMemcpyHostToDevice, order));
    MUST(hipMemcpyAsync(other, y, SIZE, hipMemcpyHostToDevice, order));
    MUST(hipMemcpyAsync(dy, other, SIZE, hipMemcpyDeviceToDevice, order));
    LAUNCH(order, "axpy", N, 256, &dx, &dy, &a, &n);
    MUST(hipMemcpyAsync(other, dy, SIZE, hipMemcpyDefault, order));
    MUST(hipMemcpyAsync(y, other, SIZE, hipMemcpyDeviceToHost, order));
    MUST(hipStreamSynchronize(order));
    u64 sum = same(y, expected, SIZE);
    MUST(hipFree(dx));
    MUST(hipFree(dy));
    MUST(hipFree(other));
    MUST(hipStreamDestroy(order));
    free(expected);
    return sum;
}

u64 copies(u32 seed)
{
    u32 *x = pinned(SIZE), *y = pinned(SIZE);
    u64 sum = round_trip(x, y, seed);
    MUST(hipHostFree(x));
    MUST(hipHostFree(y));
    return sum;
}

u64 pageable(u32 seed)
{
    u32 *x = on_host(SIZE), *y = on_host(SIZE);
    u64 sum = round_trip(x, y, seed);
    free(x);
    free(y);
    return sum;
}

u64 memsets(u32 seed)
{
    u32 word = next(&seed);
    unsigned char byte = (unsigned char)next(&seed);
    unsigned char *found = on_host(SIZE), *expected = on_host(SIZE);
    char *device = on_device(SIZE);
    hipStream_t order = stream();
    /* Everything, then words from the second quarter on, then bytes at odd places. */
    MUST(hipMemset(device, byte, SIZE));
    MUST(hipDeviceSynchronize());
    MUST(hipMemsetD32Async(device + SIZE / 4, (int)word, N / 4, order));
    MUST(hipMemsetAsync(device + SIZE / 2 + 1, ~byte & 0xff, 4001, order));
    MUST(hipStreamSynchronize(order));
    memset(expected, byte, SIZE);
    for (u32 i = 0; i < N / 4; i++)
        memcpy(expected + SIZE / 4 + i * 4, &word, 4);
    memset(expected + SIZE / 2 + 1, ~byte, 4001);
    MUST(hipMemcpy(found, device, SIZE, hipMemcpyDeviceToHost));
    u64 sum = same(found, expected, SIZE);
    MUST(hipFree(device));
    MUST(hipStreamDestroy(order));
    free(found);
    free(expected);
    return sum;
}

/* y = a x + y where both sides see the same memory. */
static u64 in_place(u32 *x, u32 *y, void *dx, void *dy, u32 seed)
{
    u32 a = next(&seed), n = N;
    fill(x, N, seed);
    fill(y, N, ~seed);
    u32 *expected = on_host(SIZE);
    for (u32 i = 0; i < N; i++)
        expected[i] = a * x[i] + y[i];
    LAUNCH(NULL, "axpy", N, 256, &dx, &dy, &a, &n);
    MUST(hipDeviceSynchronize());
    u64 sum = same(y, expected, SIZE);
    free(expected);
    return sum;
}

u64 managed(u32 seed)
{
    void *x, *y;
    MUST(hipMallocManaged(&x, SIZE, hipMemAttachGlobal));
    MUST(hipMallocManaged(&y, SIZE, hipMemAttachGlobal));
    u64 sum = in_place(x, y, x, y, seed);
    MUST(hipFree(x));
    MUST(hipFree(y));
    return sum;
}

static u32 xorshift(u32 value)
{
    value ^= value << 13;
    value ^= value >> 17;
    return value ^ value << 5;
}

/* Host and gpu take turns with the same memory, which is moved before each turn. */
u64 managed_turns(u32 seed)
{
    enum { TURNS = 3, M = 5000 };
    u32 n = M, once = 1, *expected = on_host(M * sizeof(u32));
    void *memory;
    MUST(hipMallocManaged(&memory, M * sizeof(u32), hipMemAttachGlobal));
    MUST(hipMemAdvise(memory, M * sizeof(u32), hipMemAdviseSetPreferredLocation, 0));
    u32 *data = memory;
    fill(data, M, seed);
    memcpy(expected, data, M * sizeof(u32));
    for (u32 turn = 0; turn < TURNS; turn++) {
        for (u32 i = 0; i < M; i++) {
            data[i] += turn;
            expected[i] = xorshift(expected[i] + turn);
        }
        MUST(hipMemPrefetchAsync(memory, M * sizeof(u32), 0, NULL));
        LAUNCH(NULL, "churn", M, 256, &memory, &n, &once);
        MUST(hipMemPrefetchAsync(memory, M * sizeof(u32), hipCpuDeviceId, NULL));
        MUST(hipDeviceSynchronize());
    }
    u64 sum = same(data, expected, M * sizeof(u32));
    MUST(hipFree(memory));
    free(expected);
    return sum;
}

u64 registered(u32 seed)
{
    /* Not whole pages: what lies beside it is not the gpu's business. */
    u32 *x = on_host(SIZE), *y = on_host(SIZE);
    void *dx, *dy;
    MUST(hipHostRegister(x, SIZE, 0));
    MUST(hipHostRegister(y, SIZE, 0));
    MUST(hipHostGetDevicePointer(&dx, x, 0));
    MUST(hipHostGetDevicePointer(&dy, y, 0));
    u64 sum = in_place(x, y, dx, dy, seed);
    MUST(hipHostUnregister(x));
    MUST(hipHostUnregister(y));
    free(x);
    free(y);
    return sum;
}

/* Two streams that work on halves at the same time, then one waits for the other and adds them up. */
u64 streams(u32 seed)
{
    enum { ROUNDS = 500, M = 2048 };
    u32 n = M, rounds = ROUNDS, a = next(&seed);
    u32 *left = pinned(M * sizeof(u32)), *right = pinned(M * sizeof(u32)), *expected = on_host(M * sizeof(u32));
    fill(left, M, seed);
    fill(right, M, ~seed);
    for (u32 i = 0; i < M; i++) {
        u32 value[2] = {left[i], right[i]};
        for (int side = 0; side < 2; side++) {
            for (u32 k = 0; k < ROUNDS * 2; k++) {
                value[side] ^= value[side] << 13;
                value[side] ^= value[side] >> 17;
                value[side] ^= value[side] << 5;
            }
        }
        expected[i] = a * value[0] + value[1];
    }
    hipStream_t one = stream(), two = stream();
    hipEvent_t ready;
    MUST(hipEventCreate(&ready));
    void *dl = on_device(M * sizeof(u32)), *dr = on_device(M * sizeof(u32));
    MUST(hipMemcpyAsync(dl, left, M * sizeof(u32), hipMemcpyHostToDevice, one));
    MUST(hipMemcpyAsync(dr, right, M * sizeof(u32), hipMemcpyHostToDevice, two));
    for (int half = 0; half < 2; half++) {
        LAUNCH(one, "churn", M, 256, &dl, &n, &rounds);
        LAUNCH(two, "churn", M, 256, &dr, &n, &rounds);
    }
    MUST(hipEventRecord(ready, one));
    MUST(hipStreamWaitEvent(two, ready, 0));
    LAUNCH(two, "axpy", M, 256, &dl, &dr, &a, &n);
    MUST(hipMemcpyAsync(right, dr, M * sizeof(u32), hipMemcpyDeviceToHost, two));
    MUST(hipStreamSynchronize(two));
    u64 sum = same(right, expected, M * sizeof(u32));
    MUST(hipEventDestroy(ready));
    MUST(hipStreamDestroy(one));
    MUST(hipStreamDestroy(two));
    MUST(hipFree(dl));
    MUST(hipFree(dr));
    MUST(hipHostFree(left));
    MUST(hipHostFree(right));
    free(expected);
    return sum;
}

/* Streams that do not say otherwise wait for the default stream, and it for them; priorities do not change that. */
u64 default_stream(u32 seed)
{
    enum { M = 1024 };
    static u32 x[M], y[M], found[M];
    u32 n = M, once = 1, a = next(&seed);
    int least = 0, greatest = 0;
    hipStream_t first, second;
    MUST(hipDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(greatest < least);
    MUST(hipStreamCreateWithPriority(&first, 0, least));
    MUST(hipStreamCreateWithPriority(&second, 0, greatest));
    fill(x, M, seed);
    fill(y, M, ~seed);
    void *dx = on_device(sizeof x), *dy = on_device(sizeof y);
    MUST(hipMemcpy(dx, x, sizeof x, hipMemcpyHostToDevice));
    MUST(hipMemcpy(dy, y, sizeof y, hipMemcpyHostToDevice));
    LAUNCH(first, "churn", M, 256, &dx, &n, &once);
    LAUNCH(NULL, "axpy", M, 256, &dx, &dy, &a, &n);
    LAUNCH(second, "churn", M, 256, &dy, &n, &once);
    MUST(hipMemcpy(found, dy, sizeof y, hipMemcpyDeviceToHost));
    MUST(hipStreamQuery(second));
    for (u32 i = 0; i < M; i++)
        y[i] = xorshift(a * xorshift(x[i]) + y[i]);
    u64 sum = same(found, y, sizeof y);
    MUST(hipStreamDestroy(first));
    MUST(hipStreamDestroy(second));
    MUST(hipFree(dx));
    MUST(hipFree(dy));
    return sum;
}

u64 events(u32 seed)
{
    enum { ROUNDS = 3000, M = 256 };
    static u32 data[M];
    u32 n = M, rounds = ROUNDS;
    hipStream_t order = stream();
    hipEvent_t begin, end;
    MUST(hipEventCreate(&begin));
    MUST(hipEventCreate(&end));
    fill(data, M, seed);
    void *ddata = on_device(sizeof data);
    MUST(hipMemcpy(ddata, data, sizeof data, hipMemcpyHostToDevice));
    MUST(hipEventRecord(begin, order));
    LAUNCH(order, "churn", M, 256, &ddata, &n, &rounds);
    MUST(hipEventRecord(end, order));
    hipError_t answer = hipEventQuery(end);
    CHECK(answer == hipSuccess || answer == hipErrorNotReady);
    MUST(hipEventSynchronize(end));
    MUST(hipEventQuery(begin));
    MUST(hipEventQuery(end));
    float milliseconds = -1;
    MUST(hipEventElapsedTime(&milliseconds, begin, end));
    CHECK(milliseconds > 0);
    MUST(hipMemcpy(data, ddata, sizeof data, hipMemcpyDeviceToHost));
    MUST(hipEventDestroy(begin));
    MUST(hipEventDestroy(end));
    MUST(hipStreamDestroy(order));
    MUST(hipFree(ddata));
    return checksum(data, sizeof data);
}

static void change(void *word) { *(u32 *)word += 1; }

/* The host takes its turn in a stream, between two copies. */
u64 host_call(u32 seed)
{
    u32 *word = pinned(2 * sizeof *word), start = next(&seed);
    word[0] = start;
    void *device = on_device(sizeof *word);
    hipStream_t order = stream();
    MUST(hipLaunchHostFunc(order, change, word));
    MUST(hipMemcpyAsync(device, word, sizeof *word, hipMemcpyHostToDevice, order));
    MUST(hipMemcpyAsync(word + 1, device, sizeof *word, hipMemcpyDeviceToHost, order));
    MUST(hipLaunchHostFunc(order, change, word + 1));
    MUST(hipStreamSynchronize(order));
    CHECK(word[0] == start + 1 && word[1] == start + 2);
    u64 sum = checksum(word, 2 * sizeof *word);
    MUST(hipStreamDestroy(order));
    MUST(hipFree(device));
    MUST(hipHostFree(word));
    return sum;
}
