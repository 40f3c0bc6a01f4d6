/* The programs of `gpreempt load` on HIP: the same kernel, the same flags, the same lines.
 *
 *     hip_load online --requests N --kernels N --groups N --steps N --rate R --seed N --patience-ms N [--wait]
 *     hip_load offline --groups N --steps N --depth N [--kernels N]
 *
 * `online` answers requests that arrive at random, `offline` computes until its standard input is closed or SIGTERM
 * comes. Both compare their result with that of the host and print one JSON document per line. */
#define _GNU_SOURCE
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hip.h"

typedef uint32_t u32;
typedef uint64_t u64;

enum { LANES = 256, MOST_DEPTH = 64 };
static const float KEEP = 0x1.ffff8p-1f;
static const u32 FACTOR = 1664525, SUM = 1013904223;

/* The code object lies in the program. */
extern const char code_object[];
__asm__(".section .rodata\n.balign 4096\n.globl code_object\ncode_object:\n.incbin \"" CODE_OBJECT "\"\n.previous\n");

#define MUST(call) must(call, #call)
static void must(hipError_t error, const char *call)
{
    if (error == hipSuccess)
        return;
    fprintf(stderr, "hip_load: %s: %s\n", call, hipGetErrorName(error));
    exit(1);
}

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static u64 now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (u64)time.tv_sec * 1000000000 + (u64)time.tv_nsec;
}

static void sleep_until(u64 at)
{
    struct timespec time = {(time_t)(at / 1000000000), (long)(at % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0)
        continue;
}

/* The value after a flag, or what holds without it. */
static const char *flag(char **words, const char *name, const char *otherwise)
{
    for (; *words; words++)
        if (strcmp(*words, name) == 0)
            return words[1] ? words[1] : otherwise;
    return otherwise;
}

static u64 whole(char **words, const char *name, const char *otherwise)
{
    const char *text = flag(words, name, otherwise);
    char *end;
    u64 value = strtoull(text, &end, 10);
    if (*end == 0 && end != text)
        return value;
    fprintf(stderr, "hip_load: %s %s: expected a whole number\n", name, text);
    exit(2);
}

static struct {
    u32 groups, steps, submitted;
    u32 *values, *marks, *counts; /* on the gpu; values are numbers */
    hipFunction_t kernel;
    hipStream_t stream;
} chain;

static void *memory(size_t size)
{
    void *memory = malloc(size);
    if (memory)
        return memory;
    fprintf(stderr, "hip_load: out of memory\n");
    exit(1);
}

static void prepare(u32 groups, u32 steps)
{
    u32 items = groups * LANES;
    float *values = memory(items * sizeof *values);
    u32 *marks = memory(items * sizeof *marks);
    for (u32 i = 0; i < items; i++)
        values[i] = (float)(i % LANES), marks[i] = i;
    hipModule_t module;
    MUST(hipInit(0));
    MUST(hipSetDeviceFlags(hipDeviceScheduleBlockingSync));
    MUST(hipModuleLoadData(&module, code_object));
    MUST(hipModuleGetFunction(&chain.kernel, module, "advance"));
    MUST(hipStreamCreateWithFlags(&chain.stream, hipStreamNonBlocking));
    MUST(hipMalloc((void **)&chain.values, items * sizeof *values));
    MUST(hipMalloc((void **)&chain.marks, items * sizeof *marks));
    MUST(hipMalloc((void **)&chain.counts, groups * sizeof(u32)));
    MUST(hipMemcpy(chain.values, values, items * sizeof *values, hipMemcpyHostToDevice));
    MUST(hipMemcpy(chain.marks, marks, items * sizeof *marks, hipMemcpyHostToDevice));
    MUST(hipMemset(chain.counts, 0, groups * sizeof(u32)));
    MUST(hipDeviceSynchronize());
    chain.groups = groups, chain.steps = steps;
    free(values), free(marks);
}

static void submit(void)
{
    void *arguments[] = {&chain.values, &chain.marks, &chain.counts, &chain.submitted, &chain.steps};
    MUST(hipModuleLaunchKernel(chain.kernel, chain.groups, 1, 1, LANES, 1, 1, 0, chain.stream, arguments, NULL));
    chain.submitted++;
}

static u64 add(u64 sum, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return sum;
}

/* The values of a workgroup after all kernels; they are the same for all workgroups. */
static void expect_values(float *group)
{
    for (u32 i = 0; i < LANES; i++)
        group[i] = (float)i;
    for (u32 kernel = 0; kernel < chain.submitted; kernel++) {
        u32 word = kernel * 0x9E3779B1u + 1;
        for (u32 step = 0; step < chain.steps; step++) {
            word = word * FACTOR + SUM;
            float push = (float)((int)word >> 8);
            for (u32 i = 0; i < LANES; i++)
                group[i] = group[i] * KEEP + push;
        }
    }
}

static u32 expect_mark(u32 item)
{
    u32 mark = item;
    for (u32 kernel = 0; kernel < chain.submitted; kernel++)
        mark = mark * FACTOR + item + kernel;
    return mark;
}

/* Compares the result with the host's and says so. */
static void finish(void)
{
    u64 at = now(), lost = 0, repeated = 0;
    u32 items = chain.groups * LANES, kernels = chain.submitted;
    u32 *found = memory((2 * items + chain.groups) * sizeof *found);
    u32 *expected = memory((2 * items + chain.groups) * sizeof *found);
    size_t size = items * sizeof *found, all = 2 * size + chain.groups * sizeof *found;
    MUST(hipMemcpy(found, chain.values, size, hipMemcpyDeviceToHost));
    MUST(hipMemcpy(found + items, chain.marks, size, hipMemcpyDeviceToHost));
    MUST(hipMemcpy(found + 2 * items, chain.counts, chain.groups * sizeof *found, hipMemcpyDeviceToHost));
    static float group[LANES];
    expect_values(group);
    for (u32 i = 0; i < items; i++) {
        memcpy(expected + i, group + i % LANES, sizeof *expected);
        expected[items + i] = expect_mark(i);
    }
    for (u32 i = 0; i < chain.groups; i++) {
        u32 count = found[2 * items + i];
        expected[2 * items + i] = kernels;
        lost += count < kernels ? kernels - count : 0;
        repeated += count > kernels ? count - kernels : 0;
    }
    const u64 start = 0xcbf29ce484222325;
    say("{\"line\":\"end\",\"at_ns\":%lu,\"kernels\":%u,\"lost\":%lu,\"repeated\":%lu,\"checksum\":\"%016lx\","
        "\"expected\":\"%016lx\",\"bit_identical\":%s}",
        at, kernels, lost, repeated, add(start, found, all), add(start, expected, all),
        memcmp(found, expected, all) == 0 ? "true" : "false");
}

static void answer(u64 kernels)
{
    for (u64 i = 0; i < kernels; i++)
        submit();
    MUST(hipStreamSynchronize(chain.stream));
}

/* A number above 0, up to and including 1; the same for the same seed. */
static double unit(u64 *state)
{
    u64 word = *state += 0x9E3779B97F4A7C15;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9;
    word = (word ^ word >> 27) * 0x94D049BB133111EB;
    return (double)(((word ^ word >> 31) >> 11) + 1) / (double)(1ul << 53);
}

static void online(char **words)
{
    u64 requests = whole(words, "--requests", "1"), kernels = whole(words, "--kernels", "20");
    u64 seed = whole(words, "--seed", "1"), patience = whole(words, "--patience-ms", "1000000");
    double rate = atof(flag(words, "--rate", "1")), at = 0;
    double *arrivals = memory((requests + 1) * sizeof *arrivals);
    for (u64 request = 0; request < requests; request++)
        arrivals[request] = at -= log(unit(&seed)) / rate;
    answer(kernels);
    say("{\"line\":\"ready\",\"groups\":%u}", chain.groups);
    for (char **word = words; *word; word++)
        if (strcmp(*word, "--wait") == 0)
            while (getchar() != '\n' && !feof(stdin))
                continue;
    u64 begin = now(), limit = begin + (u64)(at * 1e9) + patience * 1000000;
    say("{\"line\":\"begin\",\"at_ns\":%lu}", begin);
    for (u64 request = 0; request < requests; request++) {
        u64 arrived = begin + (u64)(arrivals[request] * 1e9), submitted = now(), answered = 0;
        if (submitted < arrived)
            submitted = arrived;
        char times[128] = "\"submitted_ns\":null,\"answered_ns\":null";
        if (submitted < limit) {
            sleep_until(arrived);
            submitted = now();
            answer(kernels);
            answered = now();
            if (answered <= limit)
                sprintf(times, "\"submitted_ns\":%lu,\"answered_ns\":%lu", submitted, answered);
            else
                sprintf(times, "\"submitted_ns\":%lu,\"answered_ns\":null", submitted);
        }
        u64 until = answered && answered <= limit ? answered : limit;
        say("{\"line\":\"request\",\"request\":%lu,\"arrived_ns\":%lu,%s,\"latency_us\":%.3f}", request, arrived, times,
            until > arrived ? (double)(until - arrived) / 1e3 : 0.0);
    }
}

static volatile sig_atomic_t told_to_end;
static void end(int number)
{
    (void)number;
    told_to_end = 1;
}

/* Whether the standard input was closed, or a signal came. */
static int enough(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char bytes[256];
    while (!told_to_end && poll(&input, 1, 0) > 0)
        if (read(0, bytes, sizeof bytes) <= 0)
            told_to_end = 1;
    return told_to_end;
}

static void offline(char **words)
{
    u64 depth = whole(words, "--depth", "3"), most = whole(words, "--kernels", "4294967295");
    hipEvent_t events[MOST_DEPTH];
    if (depth < 1 || depth > MOST_DEPTH)
        depth = 3;
    signal(SIGTERM, end);
    sigset_t signals;
    sigemptyset(&signals), sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    for (u64 i = 0; i < depth; i++)
        MUST(hipEventCreateWithFlags(&events[i], hipEventBlockingSync));
    say("{\"line\":\"ready\",\"groups\":%u}", chain.groups);
    for (u32 ended = 0;; ended++) {
        while (chain.submitted - ended < depth && chain.submitted < most && !enough()) {
            u32 kernel = chain.submitted;
            submit();
            MUST(hipEventRecord(events[kernel % depth], chain.stream));
        }
        if (ended == chain.submitted)
            return;
        MUST(hipEventSynchronize(events[ended % depth]));
        say("{\"line\":\"kernel\",\"kernel\":%u,\"ended_ns\":%lu}", ended, now());
    }
}

int main(int count, char **words)
{
    if (count < 2 || (strcmp(words[1], "online") != 0 && strcmp(words[1], "offline") != 0)) {
        fprintf(stderr, "usage: hip_load online|offline FLAGS; as gpreempt load\n");
        return 2;
    }
    prepare((u32)whole(words, "--groups", "4"), (u32)whole(words, "--steps", "1"));
    if (strcmp(words[1], "online") == 0)
        online(words);
    else
        offline(words);
    MUST(hipDeviceSynchronize());
    finish();
    return 0;
}
