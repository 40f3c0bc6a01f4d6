/* A HIP program to be debugged. Launches the kernel of kernel.s, says so when all work items wait in its loop, lets
 * them go on after a line on its standard input, and prints the results:
 *
 *     running RESULTS CONTROL      the addresses that the kernel was given
 *     result HASH                  of all that the kernel wrote, after it was compared with the host's results */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "../hip/hip.h"
#include "places.h"

/* The code object lies in the program. */
__asm__(".section .rodata\n.balign 4096\n.globl debugged_code\n"
        "debugged_code:\n.incbin \"" CODE_OBJECT "\"\n.previous\n");
extern const char debugged_code[];

#define MUST(call)                                                             \
    do {                                                                       \
        hipError_t error = (call);                                             \
        if (error != hipSuccess)                                               \
            return fprintf(stderr, "%s: %s\n", #call, hipGetErrorName(error)), 1; \
    } while (0)

/* What the kernel computes for a work item. */
static uint32_t expected(uint32_t item)
{
    uint32_t value = KNOWN + item % GROUP_ITEMS + STEPPED;
    return ((value ^ 0x5a5a5a5a) + 1) * item;
}

int main(void)
{
    hipModule_t module;
    hipFunction_t function;
    void *results;
    volatile uint32_t *control;
    MUST(hipInit(0));
    MUST(hipModuleLoadData(&module, debugged_code));
    MUST(hipModuleGetFunction(&function, module, "debugged"));
    MUST(hipMalloc(&results, ITEMS * sizeof(uint32_t)));
    MUST(hipHostMalloc((void **)&control, 4096, 0));
    control[0] = control[1] = 0;

    void *arguments[] = {&results, &control};
    MUST(hipModuleLaunchKernel(function, GROUPS, 1, 1, GROUP_ITEMS, 1, 1, 0, NULL, arguments, NULL));
    while (control[1] != ITEMS)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    printf("running %p %p\n", results, (void *)control);
    fflush(stdout);

    char line[16];
    if (fgets(line, sizeof line, stdin) == NULL)
        return 1;
    control[0] = 1;
    MUST(hipDeviceSynchronize());

    static uint32_t found[ITEMS];
    MUST(hipMemcpy(found, results, sizeof found, hipMemcpyDeviceToHost));
    uint64_t hash = 0xcbf29ce484222325;
    for (uint32_t item = 0; item < ITEMS; item++) {
        if (found[item] != expected(item)) {
            fprintf(stderr, "debuggee: item %u is %08x, not %08x\n", item, found[item], expected(item));
            return 1;
        }
        hash = (hash ^ found[item]) * 0x100000001b3;
    }
    printf("result %016llx\n", (unsigned long long)hash);
    return 0;
}
