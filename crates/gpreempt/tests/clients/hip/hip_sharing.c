/* A HIP program that places memory itself and shares memory with a child.
 *
 *     hip_sharing
 *
 * Prints a line for each step that held and ends with 0, or with 1 and a message at the first that did not. The child
 * is the same program, started again: `hip_sharing ipc` and `hip_sharing descriptor` do what their parent asks through
 * standard input and answer on standard output. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hip.h"

typedef unsigned u32;

extern const char code_object[];
__asm__(".section .rodata\n.balign 4096\n.globl code_object\ncode_object:\n.incbin \"" CODE_OBJECT "\"\n.previous\n");

/* Declared here because other programs do without them. */
typedef struct Allocation *hipMemGenericAllocationHandle_t;
typedef struct {
    int type, id;
} hipMemLocation;
typedef struct {
    int type, requestedHandleType;
    hipMemLocation location;
    void *win32HandleMetaData;
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
} hipMemAllocationProp;
typedef struct {
    hipMemLocation location;
    int flags;
} hipMemAccessDesc;
typedef struct {
    char reserved[64];
} hipIpcMemHandle_t;
enum { PINNED = 1, FILE_DESCRIPTOR = 1, DEVICE = 1, READ_WRITE = 3, MINIMUM = 0, LAZY_PEER_ACCESS = 1 };

hipError_t hipMemGetAllocationGranularity(size_t *granularity, const hipMemAllocationProp *prop, int option);
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t size, const hipMemAllocationProp *prop,
                        unsigned long long flags);
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle);
hipError_t hipMemAddressReserve(void **at, size_t size, size_t alignment, void *hint, unsigned long long flags);
hipError_t hipMemAddressFree(void *at, size_t size);
hipError_t hipMemMap(void *at, size_t size, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags);
hipError_t hipMemUnmap(void *at, size_t size);
hipError_t hipMemSetAccess(void *at, size_t size, const hipMemAccessDesc *descriptions, size_t count);
hipError_t hipMemExportToShareableHandle(void *shareable, hipMemGenericAllocationHandle_t handle, int type,
                                         unsigned long long flags);
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *shareable, int type);
hipError_t hipRuntimeGetVersion(int *version);
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *memory);
hipError_t hipIpcOpenMemHandle(void **memory, hipIpcMemHandle_t handle, unsigned flags);
hipError_t hipIpcCloseMemHandle(void *memory);

#define MUST(call) must((call) == hipSuccess, #call)
#define CHECK(what) must(what, #what)
static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "hip_sharing: not so: %s (%s)\n", what, hipGetErrorName(hipGetLastError()));
    exit(1);
}

static const hipMemAllocationProp PROP = {PINNED, FILE_DESCRIPTOR, {DEVICE, 0}, NULL, 0, 0, 0};
static const hipMemAccessDesc ACCESS = {{DEVICE, 0}, READ_WRITE};

/* y = 3 * x + y on the gpu. */
static void axpy(void *x, void *y, u32 n)
{
    static hipModule_t module;
    static hipFunction_t function;
    u32 a = 3;
    if (!module) {
        MUST(hipModuleLoadData(&module, code_object));
        MUST(hipModuleGetFunction(&function, module, "axpy"));
    }
    void *arguments[] = {&x, &y, &a, &n};
    MUST(hipModuleLaunchKernel(function, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    MUST(hipDeviceSynchronize());
}

/* Fills memory with first, first + 1, ... */
static void count_up(void *to, u32 first, u32 n)
{
    u32 *from = malloc(n * sizeof *from);
    CHECK(from != NULL);
    for (u32 i = 0; i < n; i++)
        from[i] = first + i;
    MUST(hipMemcpy(to, from, n * sizeof *from, hipMemcpyHostToDevice));
    free(from);
}

/* Whether memory holds first, first + step, ... */
static int counts(const void *memory, u32 first, u32 step, u32 n)
{
    u32 *found = malloc(n * sizeof *found);
    CHECK(found != NULL);
    MUST(hipMemcpy(found, memory, n * sizeof *found, hipMemcpyDeviceToHost));
    u32 same = 0;
    while (same < n && found[same] == first + step * same)
        same++;
    if (same < n)
        fprintf(stderr, "hip_sharing: %u is %u\n", same, found[same]);
    free(found);
    return same == n;
}

/* Has the runtime allocate what it needs for itself. */
static void warm_up(void)
{
    void *memory;
    MUST(hipMalloc(&memory, 4096));
    count_up(memory, 0, 1024);
    axpy(memory, memory, 1024);
    CHECK(counts(memory, 0, 4, 1024));
    MUST(hipFree(memory));
}

static size_t memory_left(void)
{
    size_t left, all;
    MUST(hipMemGetInfo(&left, &all));
    return left;
}

/* Makes a handle of memory that came as a descriptor. */
static hipMemGenericAllocationHandle_t import(int file)
{
    hipMemGenericAllocationHandle_t handle;
    int version;
    MUST(hipRuntimeGetVersion(&version));
    /* HIP 6 is told where the descriptor lies, HIP 7 the descriptor. */
    void *shareable = version < 70000000 ? (void *)&file : (void *)(long)file;
    MUST(hipMemImportFromShareableHandle(&handle, shareable, FILE_DESCRIPTOR));
    return handle;
}

/* Memory that the program places itself: two pieces side by side, one of them in two places, one after the other. */
static void virtual_memory(void)
{
    size_t piece;
    MUST(hipMemGetAllocationGranularity(&piece, &PROP, MINIMUM));
    CHECK(piece >= 4096);
    size_t before = memory_left();
    void *place;
    MUST(hipMemAddressReserve(&place, 4 * piece, 0, NULL, 0));
    hipMemGenericAllocationHandle_t first, second;
    MUST(hipMemCreate(&first, piece, &PROP, 0));
    MUST(hipMemCreate(&second, piece, &PROP, 0));
    CHECK(memory_left() < before);
    char *at = place;
    u32 n = piece / sizeof(u32);
    MUST(hipMemMap(at, piece, 0, first, 0));
    MUST(hipMemMap(at + piece, piece, 0, second, 0));
    MUST(hipMemSetAccess(at, 2 * piece, &ACCESS, 1));
    count_up(at, 7, 2 * n);
    axpy(at, at, 2 * n);
    CHECK(counts(at, 28, 4, 2 * n));
    puts("two pieces are one range");
    MUST(hipMemUnmap(at + piece, piece));
    MUST(hipMemMap(at + 3 * piece, piece, 0, second, 0));
    MUST(hipMemSetAccess(at + 3 * piece, piece, &ACCESS, 1));
    CHECK(counts(at + 3 * piece, 28 + 4 * n, 4, n));
    puts("a piece keeps its bytes at another address");
    MUST(hipMemRelease(second));
    CHECK(counts(at + 3 * piece, 28 + 4 * n, 4, n));
    puts("a mapping outlives its handle");
    MUST(hipMemUnmap(at + 3 * piece, piece));
    MUST(hipMemUnmap(at, piece));
    MUST(hipMemRelease(first));
    MUST(hipMemAddressFree(place, 4 * piece));
    CHECK(memory_left() == before);
    puts("nothing is left");
}

/* A child that is this program. */
struct Child {
    pid_t pid;
    int to, from;
};

static struct Child start(const char *role)
{
    int to[2], from[2];
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    fflush(stdout);
    struct Child child = {fork(), to[1], from[0]};
    CHECK(child.pid >= 0);
    if (child.pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        /* The program may have been started by another one, its loader. */
        execl(getenv("HIP_SHARING_RUN"), "run", getenv("HIP_SHARING"), role, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    return child;
}

static void answered(struct Child child)
{
    char byte;
    CHECK(read(child.from, &byte, 1) == 1 && byte == '+');
}

static int ended(struct Child child)
{
    int status;
    CHECK(waitpid(child.pid, &status, 0) == child.pid);
    close(child.to);
    close(child.from);
    return status;
}

enum { N = 1 << 20 };

/* Memory that a child opens by a handle. */
static void ipc(void)
{
    void *memory;
    hipIpcMemHandle_t handle;
    MUST(hipMalloc(&memory, N * sizeof(u32)));
    MUST(hipIpcGetMemHandle(&handle, memory));
    count_up(memory, 1, N);
    for (int killed = 0; killed < 2; killed++) {
        struct Child child = start("ipc");
        CHECK(write(child.to, &handle, sizeof handle) == sizeof handle);
        answered(child);
        CHECK(killed ? counts(memory, 16, 16, N) : counts(memory, 4, 4, N));
        if (killed)
            kill(child.pid, SIGKILL);
        else
            CHECK(write(child.to, "+", 1) == 1);
        int status = ended(child);
        CHECK(killed ? WIFSIGNALED(status) : status == 0);
        puts(killed ? "a child is killed with memory of its parent" : "a child computes in memory of its parent");
    }
    CHECK(counts(memory, 16, 16, N));
    /* ROCr 7.2 keeps a handle of it for itself until the program ends. */
    MUST(hipFree(memory));
}

static int ipc_child(void)
{
    hipIpcMemHandle_t handle;
    void *memory;
    CHECK(read(0, &handle, sizeof handle) == sizeof handle);
    MUST(hipIpcOpenMemHandle(&memory, handle, LAZY_PEER_ACCESS));
    axpy(memory, memory, N);
    CHECK(write(1, "+", 1) == 1);
    char byte;
    CHECK(read(0, &byte, 1) == 1);
    MUST(hipIpcCloseMemHandle(memory));
    return 0;
}

/* Memory that a child gets as a descriptor. */
static void descriptor(void)
{
    size_t size;
    MUST(hipMemGetAllocationGranularity(&size, &PROP, MINIMUM));
    u32 n = size / sizeof(u32);
    hipMemGenericAllocationHandle_t handle;
    int file = -1;
    void *place;
    MUST(hipMemCreate(&handle, size, &PROP, 0));
    MUST(hipMemExportToShareableHandle(&file, handle, FILE_DESCRIPTOR, 0));
    CHECK(file >= 0 && lseek(file, 0, SEEK_END) == (off_t)size);
    MUST(hipMemAddressReserve(&place, size, 0, NULL, 0));
    MUST(hipMemMap(place, size, 0, handle, 0));
    MUST(hipMemSetAccess(place, size, &ACCESS, 1));
    count_up(place, 5, n);
    int inherited = dup(file);
    CHECK(inherited >= 0);
    struct Child child = start("descriptor");
    CHECK(write(child.to, &inherited, sizeof inherited) == sizeof inherited);
    answered(child);
    CHECK(counts(place, 20, 4, n));
    CHECK(write(child.to, "+", 1) == 1);
    CHECK(ended(child) == 0);
    puts("a child computes in memory that came as a descriptor");
    MUST(hipMemUnmap(place, size));
    MUST(hipMemRelease(handle));
    close(file);
    /* The descriptor alone holds the bytes. */
    handle = import(inherited);
    close(inherited);
    MUST(hipMemMap(place, size, 0, handle, 0));
    MUST(hipMemSetAccess(place, size, &ACCESS, 1));
    CHECK(counts(place, 20, 4, n));
    MUST(hipMemUnmap(place, size));
    MUST(hipMemRelease(handle));
    MUST(hipMemAddressFree(place, size));
    puts("a descriptor holds memory without a handle");
}

static int descriptor_child(void)
{
    size_t size;
    hipMemGenericAllocationHandle_t handle;
    int file;
    void *place;
    CHECK(read(0, &file, sizeof file) == sizeof file);
    MUST(hipMemGetAllocationGranularity(&size, &PROP, MINIMUM));
    handle = import(file);
    MUST(hipMemAddressReserve(&place, size, 0, NULL, 0));
    MUST(hipMemMap(place, size, 0, handle, 0));
    MUST(hipMemSetAccess(place, size, &ACCESS, 1));
    axpy(place, place, size / sizeof(u32));
    CHECK(write(1, "+", 1) == 1);
    char byte;
    CHECK(read(0, &byte, 1) == 1);
    return 0;
}

int main(int count, char **arguments)
{
    MUST(hipInit(0));
    if (count > 1)
        return strcmp(arguments[1], "ipc") == 0 ? ipc_child() : descriptor_child();
    warm_up();
    virtual_memory();
    ipc();
    descriptor();
    return 0;
}
