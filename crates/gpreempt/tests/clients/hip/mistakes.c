/* Mistakes that a program may make, and what it is told. */
#include "suite.h"

static hipError_t launch(unsigned grid, unsigned block)
{
    u64 nowhere = 0;
    return hipModuleLaunchKernel(kernel("poke"), grid, 1, 1, block, 1, 1, 0, NULL, (void *[]){&nowhere}, NULL);
}

u64 errors(u32 seed)
{
    (void)seed;
    void *memory = NULL;
    size_t left = 0, all = 0;
    hipFunction_t absent;
    hipModule_t broken;
    EXPECT(hipErrorInvalidValue, hipMalloc(NULL, 1));
    EXPECT(hipErrorInvalidValue, hipMemcpy(NULL, &left, sizeof left, hipMemcpyHostToDevice));
    MUST(hipMemGetInfo(&left, &all));
    CHECK(left > 0 && left <= all);
    EXPECT(hipErrorOutOfMemory, hipMalloc(&memory, all * 2));
    /* That did not cost anything. */
    MUST(hipMalloc(&memory, 1 << 20));
    MUST(hipFree(memory));
    EXPECT(hipErrorInvalidValue, hipFree((void *)0x123000));
    EXPECT(hipErrorNotFound, hipModuleGetFunction(&absent, module(), "no_such_kernel"));
    CHECK(hipModuleLoadData(&broken, "this is no code object") != hipSuccess);
    CHECK(launch(1, 4096) != hipSuccess);
    CHECK(launch(0, 64) != hipSuccess);
    EXPECT(hipErrorInvalidDevice, hipSetDevice(1000));
    EXPECT(hipErrorInvalidHandle, hipEventRecord(NULL, NULL));
    dim3 one = {1, 1, 1};
    EXPECT(hipErrorInvalidDeviceFunction, hipLaunchKernel(NULL, one, one, (void *[]){&memory}, 0, NULL));
    (void)hipGetLastError();
    MUST(hipDeviceSynchronize());
    return 0;
}

static u64 end_by(const char *name)
{
    u64 unused = 0;
    LAUNCH(NULL, name, 1, 64, &unused);
    MUST(hipDeviceSynchronize());
    CHECK(!"the program goes on after an error of its queue");
    return 0;
}

u64 give_up(u32 seed)
{
    (void)seed;
    return end_by("give_up");
}

u64 no_code(u32 seed)
{
    (void)seed;
    return end_by("no_code");
}

u64 fault(u32 seed)
{
    (void)seed;
    u64 nowhere = 0x123456789000;
    LAUNCH(NULL, "poke", 1, 64, &nowhere);
    MUST(hipDeviceSynchronize());
    CHECK(!"the program goes on after a memory fault");
    return 0;
}
