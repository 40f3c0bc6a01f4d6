/* What the jobs of hip_suite share. */
#ifndef SUITE_H
#define SUITE_H

#include <stdint.h>

#include "hip.h"

typedef uint32_t u32;
typedef uint64_t u64;

/* Ends the program with a message if a call does not succeed. */
#define MUST(call) must(call, #call)
void must(hipError_t error, const char *call);

/* Ends the program if the answer of a call is not the expected one. */
#define EXPECT(expected, call) expect(expected, call, #call)
void expect(hipError_t expected, hipError_t found, const char *call);

/* Ends the program if something is not so. */
#define CHECK(what) check(what, #what)
void check(int holds, const char *what);

/* A kernel of the module, found by name once. */
hipFunction_t kernel(const char *name);
hipModule_t module(void);

/* Launches blocks of `size` lanes, enough for `items`; the addresses of the arguments follow. */
#define LAUNCH(stream, name, items, size, ...)                                                                         \
    MUST(hipModuleLaunchKernel(kernel(name), ((items) + (size)-1) / (size), 1, 1, size, 1, 1, 0, stream,               \
                               (void *[]){__VA_ARGS__}, NULL))

/* Memory that must be there. */
void *on_device(size_t size);
void *on_host(size_t size);

/* The next of a sequence of numbers that depends on the seed alone. */
u32 next(u32 *seed);
/* A number of eighths between -2 and 2. */
float next_float(u32 *seed);
void fill(u32 *to, size_t count, u32 seed);

/* Checksum of some bytes; `same` also ends the program if they differ from the expected ones. */
u64 checksum(const void *bytes, size_t size);
u64 same(const void *found, const void *expected, size_t size);

/* A job: does its work on the gpu, compares it with the host's, and answers the checksum of its results. `seed` is
 * different in every round. */
typedef u64 Job(u32 seed);

Job axpy, symbol, reduce, exactly_once, histogram, scratch, matmul, train, churn; /* kernels.c through compute.c */
Job copies, pageable, memsets, managed, registered, streams, events, host_call;   /* movement.c */
Job managed_turns, default_stream;                                                /* movement.c */
Job graph_capture, graph_nodes;                                                   /* graphs.c */
Job cu_masks, managed_places;                                                     /* placement.c */
Job cooperative, device_heap, device_printf, assertion;      /* library.c through device_library.c */
Job errors, fault, give_up, no_code;                                              /* mistakes.c */

#endif
