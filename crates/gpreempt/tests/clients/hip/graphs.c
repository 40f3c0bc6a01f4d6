/* Jobs that launch graphs: captured from streams, and made of nodes. */
#include <stdlib.h>

#include "suite.h"

enum { N = 3000, SIZE = N * sizeof(u32), LAUNCHES = 4 };

static hipStream_t stream(void)
{
    hipStream_t stream;
    MUST(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    return stream;
}

/* What each launch does to y: it becomes a x + y with the words of `y` that the one before left. */
static u64 expected_after(u32 *y, const u32 *x, u32 a, u32 launches, const u32 *found)
{
    for (u32 launch = 0; launch < launches; launch++)
        for (u32 i = 0; i < N; i++)
            y[i] = a * x[i] + y[i];
    return same(found, y, SIZE);
}

/* Two streams are captured, the second of which waits for the first, and the whole is launched again and again. */
u64 graph_capture(u32 seed)
{
    static u32 x[N], y[N], found[N];
    u32 a = next(&seed), n = N;
    fill(x, N, seed);
    fill(y, N, ~seed);
    hipStream_t one = stream(), two = stream();
    hipEvent_t fork, join;
    MUST(hipEventCreate(&fork));
    MUST(hipEventCreate(&join));
    void *dx = on_device(SIZE), *dy = on_device(SIZE), *copy = on_device(SIZE);
    MUST(hipMemcpy(dx, x, SIZE, hipMemcpyHostToDevice));
    MUST(hipMemcpy(dy, y, SIZE, hipMemcpyHostToDevice));
    hipGraph_t graph;
    hipGraphExec_t ready;
    MUST(hipStreamBeginCapture(one, hipStreamCaptureModeGlobal));
    MUST(hipEventRecord(fork, one));
    MUST(hipStreamWaitEvent(two, fork, 0));
    MUST(hipMemcpyAsync(copy, dx, SIZE, hipMemcpyDeviceToDevice, two));
    MUST(hipEventRecord(join, two));
    MUST(hipStreamWaitEvent(one, join, 0));
    LAUNCH(one, "axpy", N, 256, &copy, &dy, &a, &n);
    MUST(hipStreamEndCapture(one, &graph));
    /* Capturing executes nothing. */
    MUST(hipMemcpy(found, dy, SIZE, hipMemcpyDeviceToHost));
    same(found, y, SIZE);
    MUST(hipGraphInstantiate(&ready, graph, NULL, NULL, 0));
    for (int launch = 0; launch < LAUNCHES; launch++)
        MUST(hipGraphLaunch(ready, one));
    MUST(hipStreamSynchronize(one));
    MUST(hipMemcpy(found, dy, SIZE, hipMemcpyDeviceToHost));
    u64 sum = expected_after(y, x, a, LAUNCHES, found);
    MUST(hipGraphExecDestroy(ready));
    MUST(hipGraphDestroy(graph));
    MUST(hipEventDestroy(fork));
    MUST(hipEventDestroy(join));
    MUST(hipStreamDestroy(one));
    MUST(hipStreamDestroy(two));
    MUST(hipFree(dx));
    MUST(hipFree(dy));
    MUST(hipFree(copy));
    return sum;
}

/* A copy to the device, a kernel and a copy back, as nodes; the kernel gets another argument for the last launches. */
u64 graph_nodes(u32 seed)
{
    static u32 y[N], found[N];
    u32 a = next(&seed), other = next(&seed), n = N;
    u32 *x = on_host(SIZE);
    fill(x, N, seed);
    fill(y, N, ~seed);
    hipStream_t order = stream();
    void *dx = on_device(SIZE), *dy = on_device(SIZE);
    MUST(hipMemcpy(dy, y, SIZE, hipMemcpyHostToDevice));
    hipGraph_t graph;
    hipGraphNode_t upload, compute, download;
    hipGraphExec_t ready;
    void *arguments[] = {&dx, &dy, &a, &n};
    hipKernelNodeParams axpy = {
        .blockDim = {256, 1, 1}, .func = kernel("axpy"), .gridDim = {(N + 255) / 256, 1, 1}, .kernelParams = arguments};
    MUST(hipGraphCreate(&graph, 0));
    MUST(hipGraphAddMemcpyNode1D(&upload, graph, NULL, 0, dx, x, SIZE, hipMemcpyHostToDevice));
    MUST(hipGraphAddKernelNode(&compute, graph, &upload, 1, &axpy));
    MUST(hipGraphAddMemcpyNode1D(&download, graph, &compute, 1, found, dy, SIZE, hipMemcpyDeviceToHost));
    MUST(hipGraphInstantiate(&ready, graph, NULL, NULL, 0));
    for (int launch = 0; launch < LAUNCHES; launch++)
        MUST(hipGraphLaunch(ready, order));
    MUST(hipStreamSynchronize(order));
    u64 sum = expected_after(y, x, a, LAUNCHES, found);
    arguments[2] = &other;
    MUST(hipGraphExecKernelNodeSetParams(ready, compute, &axpy));
    MUST(hipGraphLaunch(ready, order));
    MUST(hipStreamSynchronize(order));
    sum ^= expected_after(y, x, other, 1, found);
    MUST(hipGraphExecDestroy(ready));
    MUST(hipGraphDestroy(graph));
    MUST(hipStreamDestroy(order));
    MUST(hipFree(dx));
    MUST(hipFree(dy));
    free(x);
    return sum;
}
