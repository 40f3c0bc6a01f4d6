/* Jobs that use ROCm's device library: cooperative launches, the heap of the device, output from the device. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

extern const char library_object[];
__asm__(".section .rodata\n.balign 4096\n.globl library_object\nlibrary_object:\n.incbin \"" LIBRARY_OBJECT
        "\"\n.previous\n");

static hipFunction_t library_kernel(const char *name)
{
    static hipModule_t loaded;
    hipFunction_t function;
    if (!loaded)
        MUST(hipModuleLoadData(&loaded, library_object));
    MUST(hipModuleGetFunction(&function, loaded, name));
    return function;
}

static void launch(const char *name, u32 groups, u32 width, void **arguments)
{
    MUST(hipModuleLaunchKernel(library_kernel(name), groups, 1, 1, width, 1, 1, 0, NULL, arguments, NULL));
}

/* A grid whose groups wait for each other must be on the gpu as a whole; HIP refuses one that does not fit. */
u64 cooperative(u32 seed)
{
    enum { GROUPS = 24, WIDTH = 128, ROUNDS = 5, N = GROUPS * WIDTH };
    static u32 cells[2 * N], expected[2 * N];
    u32 groups = GROUPS, width = WIDTH, rounds = ROUNDS;
    int supported = 0;
    MUST(hipDeviceGetAttribute(&supported, hipDeviceAttributeCooperativeLaunch, 0));
    CHECK(supported == 1);
    fill(cells, 2 * N, seed);
    memcpy(expected, cells, sizeof cells);
    for (u32 round = 0; round < ROUNDS; round++)
        for (u32 i = 0; i < N; i++) {
            u32 *from = expected + round % 2 * N, *to = expected + (round + 1) % 2 * N;
            to[i] = from[(i / WIDTH + 1) % GROUPS * WIDTH + i % WIDTH] * 1664525 + round;
        }
    hipFunction_t pass_on = library_kernel("pass_on");
    void *device = on_device(sizeof cells);
    MUST(hipMemcpy(device, cells, sizeof cells, hipMemcpyHostToDevice));
    void *arguments[] = {&device, &groups, &width, &rounds};
    EXPECT(hipErrorCooperativeLaunchTooLarge,
           hipModuleLaunchCooperativeKernel(pass_on, 1 << 20, 1, 1, WIDTH, 1, 1, 0, NULL, arguments));
    MUST(hipModuleLaunchCooperativeKernel(pass_on, GROUPS, 1, 1, WIDTH, 1, 1, 0, NULL, arguments));
    MUST(hipMemcpy(cells, device, sizeof cells, hipMemcpyDeviceToHost));
    MUST(hipFree(device));
    return same(cells, expected, sizeof cells);
}

/* Memory that one kernel takes from the heap of the device and another gives back. */
u64 device_heap(u32 seed)
{
    enum { GROUPS = 4, N = GROUPS * 64 };
    static u64 found[N], expected[N];
    for (u32 item = 0; item < N; item++) {
        expected[item] = 0;
        for (u32 i = 0; i < 1 + item % 61; i++)
            expected[item] += seed + item * 64 + i;
    }
    void *blocks = on_device(N * sizeof(void *)), *sums = on_device(sizeof found);
    launch("take_memory", GROUPS, 64, (void *[]){&blocks, &seed});
    launch("give_memory", GROUPS, 64, (void *[]){&blocks, &sums});
    MUST(hipMemcpy(found, sums, sizeof found, hipMemcpyDeviceToHost));
    MUST(hipFree(blocks));
    MUST(hipFree(sums));
    return same(found, expected, sizeof found);
}

/* What a kernel prints is on stdout when the kernel has ended. */
u64 device_printf(u32 seed)
{
    enum { LANES = 5 };
    static char found[4096], expected[4096];
    u32 lanes = LANES;
    double number = (seed >> 24) / 8.0;
    memset(found, 0, sizeof found);
    memset(expected, 0, sizeof expected);
    for (u32 lane = 0, at = 0; lane < LANES; lane++)
        at += (u32)sprintf(expected + at, "lane %u of a group: %.3f\n", lane, number * lane);
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    check(before >= 0 && file != NULL, "output can be redirected");
    dup2(fileno(file), STDOUT_FILENO);
    launch("say", 1, 64, (void *[]){&lanes, &number});
    hipError_t error = hipDeviceSynchronize();
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    MUST(error);
    rewind(file);
    size_t length = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    CHECK(length == strlen(expected));
    return same(found, expected, sizeof found);
}

u64 assertion(u32 seed)
{
    (void)seed;
    u32 limit = 63;
    launch("insist", 1, 64, (void *[]){&limit});
    MUST(hipDeviceSynchronize());
    CHECK(!"the program goes on after an assertion that does not hold");
    return 0;
}
