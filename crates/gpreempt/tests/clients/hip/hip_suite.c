/* A HIP program of many small jobs with known results, for gpus that may be taken away in the middle.
 *
 *     hip_suite [--rounds N] [JOB ...]
 *
 * Runs the named jobs, or all but those that end the program, N times (once by default). Prints one line for each: job,
 * round, checksum of the results. Everything printed depends on the arguments alone, so the output of two runs can be
 * compared byte by byte. Each result is also compared with one that the host computes. Ends with 0 if all agree, with 1
 * and a message at the first that does not. `fault` writes where there is no memory, `give_up` aborts, `assertion` says
 * why first, `no_code` executes bits that are no instruction: the runtime ends the program, or returns an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* The code object lies in the program. */
extern const char code_object[];
__asm__(".section .rodata\n.balign 4096\n.globl code_object\ncode_object:\n.incbin \"" CODE_OBJECT "\"\n.previous\n");

static const struct {
    const char *name;
    Job *run;
} JOBS[] = {
    {"axpy", axpy},         {"symbol", symbol},   {"reduce", reduce},     {"histogram", histogram},
    {"scratch", scratch},   {"matmul", matmul},   {"train", train},       {"churn", churn},
    {"copies", copies},     {"pageable", pageable}, {"memsets", memsets}, {"managed", managed},
    {"registered", registered}, {"streams", streams}, {"events", events}, {"host_call", host_call},
    {"errors", errors},     {"exactly_once", exactly_once},
    {"managed_turns", managed_turns}, {"default_stream", default_stream},
    {"graph_capture", graph_capture}, {"graph_nodes", graph_nodes}, {"cu_masks", cu_masks},
    {"managed_places", managed_places},
    {"cooperative", cooperative}, {"device_heap", device_heap}, {"device_printf", device_printf},
    /* Those below end the program. */
    {"fault", fault},       {"give_up", give_up}, {"no_code", no_code},
    {"assertion", assertion},
};
enum { COUNT = sizeof JOBS / sizeof JOBS[0], HARMLESS = COUNT - 4 };

static const char *current = "start";

void must(hipError_t error, const char *call) { expect(hipSuccess, error, call); }

void expect(hipError_t expected, hipError_t found, const char *call)
{
    if (found == expected)
        return;
    fprintf(stderr, "hip_suite: %s: %s is %s, expected %s\n", current, call, hipGetErrorName(found),
            hipGetErrorName(expected));
    exit(1);
}

void check(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "hip_suite: %s: not so: %s\n", current, what);
    exit(1);
}

hipModule_t module(void)
{
    static hipModule_t loaded;
    if (!loaded)
        MUST(hipModuleLoadData(&loaded, code_object));
    return loaded;
}

hipFunction_t kernel(const char *name)
{
    static struct {
        const char *name;
        hipFunction_t function;
    } known[32];
    size_t i = 0;
    while (known[i].name && strcmp(known[i].name, name) != 0)
        check(++i < sizeof known / sizeof known[0], "there is room for another kernel");
    if (!known[i].name) {
        MUST(hipModuleGetFunction(&known[i].function, module(), name));
        known[i].name = name;
    }
    return known[i].function;
}

void *on_device(size_t size)
{
    void *memory;
    MUST(hipMalloc(&memory, size));
    return memory;
}

void *on_host(size_t size)
{
    void *memory = malloc(size);
    check(memory != NULL, "there is memory");
    return memory;
}

u32 next(u32 *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed ^ *seed >> 15;
}

float next_float(u32 *seed) { return (float)(int)(next(seed) >> 27) / 8 - 2; }

void fill(u32 *to, size_t count, u32 seed)
{
    for (size_t i = 0; i < count; i++)
        to[i] = next(&seed);
}

u64 checksum(const void *bytes, size_t size)
{
    u64 sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return sum;
}

u64 same(const void *found, const void *expected, size_t size)
{
    if (memcmp(found, expected, size) != 0) {
        size_t i = 0;
        while (((const char *)found)[i] == ((const char *)expected)[i])
            i++;
        fprintf(stderr, "hip_suite: %s: results differ from byte %zu of %zu on\n", current, i, size);
        exit(1);
    }
    return checksum(found, size);
}

static int usage(void)
{
    fprintf(stderr, "usage: hip_suite [--rounds N] [JOB ...]\njobs:");
    for (int i = 0; i < COUNT; i++)
        fprintf(stderr, " %s", JOBS[i].name);
    fprintf(stderr, "\n");
    return 2;
}

static int is_chosen(int job, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(JOBS[job].name, names[i]) == 0)
            return 1;
    return count == 0 && job < HARMLESS;
}

static int is_job(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (strcmp(name, JOBS[i].name) == 0)
            return 1;
    return 0;
}

int main(int count, char **words)
{
    long rounds = 1;
    count--, words++;
    if (count > 0 && strcmp(words[0], "--rounds") == 0) {
        char *end = NULL;
        rounds = count > 1 ? strtol(words[1], &end, 10) : 0;
        if (rounds < 1 || *end != 0)
            return usage();
        count -= 2, words += 2;
    }
    for (int i = 0; i < count; i++)
        if (!is_job(words[i]))
            return usage();
    MUST(hipInit(0));
    int gpus = 0;
    MUST(hipGetDeviceCount(&gpus));
    CHECK(gpus > 0);
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < COUNT; i++) {
            if (!is_chosen(i, count, words))
                continue;
            current = JOBS[i].name;
            u64 sum = JOBS[i].run((u32)round * 2654435761u + (u32)i);
            printf("%s %ld %016lx\n", current, round, sum);
            fflush(stdout);
        }
    }
    /* No destructor of the runtime is waited for, and nothing is given back: most HIP programs end like this. */
    return 0;
}
