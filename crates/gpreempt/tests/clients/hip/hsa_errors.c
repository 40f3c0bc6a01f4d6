/* Errors of queues, as the HSA runtime tells them to a program that goes on: HIP ends with the first.
 *
 * Every mistake is made on a queue of its own. The program prints the status that the queue's callback was called with
 * and how often that was, and fails unless each was called once, for its own queue, after its own mistake. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint32_t u32;
typedef uint64_t u64;

/* What the program uses of the runtime, declared here because the library comes without its headers. */
typedef int hsa_status_t;
typedef struct {
    u64 handle;
} Handle;
typedef struct {
    u32 type, features;
    void *base_address;
    Handle doorbell_signal;
    u32 size, reserved;
    u64 id;
} hsa_queue_t;
typedef struct {
    uint16_t header, setup, workgroup[3], reserved0;
    u32 grid[3], private_segment, group_segment;
    u64 kernel_object, kernarg, reserved1, completion;
} Packet;
_Static_assert(sizeof(Packet) == 64, "a packet has 64 bytes");
enum { SUCCESS = 0, BREAK = 1, AGENT_DEVICE = 17, GPU = 1, MANY_PRODUCERS = 0, KERNEL_OBJECT = 22 };
enum { DISPATCH = 2, NO_SUCH_TYPE = 6, SYSTEM_FENCES = 2 << 9 | 2 << 11 };

hsa_status_t hsa_init(void);
hsa_status_t hsa_shut_down(void);
hsa_status_t hsa_status_string(hsa_status_t status, const char **text);
hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(Handle, void *), void *data);
hsa_status_t hsa_agent_get_info(Handle agent, int attribute, void *value);
hsa_status_t hsa_queue_create(Handle agent, u32 size, u32 type, void (*callback)(hsa_status_t, hsa_queue_t *, void *),
                              void *data, u32 private_segment, u32 group_segment, hsa_queue_t **queue);
hsa_status_t hsa_queue_destroy(hsa_queue_t *queue);
u64 hsa_queue_add_write_index_scacq_screl(const hsa_queue_t *queue, u64 value);
void hsa_signal_store_screlease(Handle signal, int64_t value);
hsa_status_t hsa_code_object_reader_create_from_memory(const void *code, size_t size, Handle *reader);
hsa_status_t hsa_executable_create_alt(int profile, int rounding, const char *options, Handle *executable);
hsa_status_t hsa_executable_load_agent_code_object(Handle executable, Handle agent, Handle reader, const char *options,
                                                   Handle *loaded);
hsa_status_t hsa_executable_freeze(Handle executable, const char *options);
hsa_status_t hsa_executable_get_symbol_by_name(Handle executable, const char *name, const Handle *agent, Handle *symbol);
hsa_status_t hsa_executable_symbol_get_info(Handle symbol, int attribute, void *value);

/* The code object lies in the program. */
extern const char code_object[], code_object_end[];
__asm__(".section .rodata\n.balign 4096\n.globl code_object, code_object_end\n"
        "code_object:\n.incbin \"" CODE_OBJECT "\"\ncode_object_end:\n.previous\n");

#define MUST(call) must(call, #call)
static void must(hsa_status_t status, const char *call)
{
    const char *text = "a status without a name";
    if (status == SUCCESS)
        return;
    hsa_status_string(status, &text);
    fprintf(stderr, "hsa_errors: %s: %s\n", call, text);
    exit(1);
}

enum Mistake { ABORT, NO_INSTRUCTION, PACKET_TYPE, DIMENSIONS, WORKGROUP_SIZE, LOCAL_MEMORY, NO_KERNEL, MISTAKES };
static const char *const NAMES[MISTAKES] = {
    "abort", "no_instruction", "packet_type", "dimensions", "workgroup_size", "local_memory", "no_kernel",
};

/* What the runtime has told of each queue; it does so on a thread of its own. */
static struct Told {
    hsa_queue_t *queue, *named;
    int calls;
    hsa_status_t status;
} told[MISTAKES];

static void queue_error(hsa_status_t status, hsa_queue_t *queue, void *data)
{
    struct Told *of = data;
    of->status = status;
    of->named = queue;
    __atomic_add_fetch(&of->calls, 1, __ATOMIC_SEQ_CST);
}

static int calls(int mistake)
{
    return __atomic_load_n(&told[mistake].calls, __ATOMIC_SEQ_CST);
}

static hsa_status_t find_gpu(Handle agent, void *gpu)
{
    u32 kind;
    MUST(hsa_agent_get_info(agent, AGENT_DEVICE, &kind));
    if (kind != GPU)
        return SUCCESS;
    *(Handle *)gpu = agent;
    return BREAK;
}

static Handle load(Handle gpu)
{
    Handle reader, executable;
    MUST(hsa_code_object_reader_create_from_memory(code_object, (size_t)(code_object_end - code_object), &reader));
    MUST(hsa_executable_create_alt(0, 0, NULL, &executable));
    MUST(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
    MUST(hsa_executable_freeze(executable, NULL));
    return executable;
}

static u64 kernel(Handle executable, Handle gpu, const char *name)
{
    Handle symbol;
    u64 object;
    MUST(hsa_executable_get_symbol_by_name(executable, name, &gpu, &symbol));
    MUST(hsa_executable_symbol_get_info(symbol, KERNEL_OBJECT, &object));
    return object;
}

static void submit(hsa_queue_t *queue, Packet packet)
{
    u64 index = hsa_queue_add_write_index_scacq_screl(queue, 1);
    Packet *slot = (Packet *)queue->base_address + index % queue->size;
    memcpy((char *)slot + 4, (char *)&packet + 4, sizeof packet - 4);
    u32 first;
    memcpy(&first, &packet, sizeof first);
    /* The processor takes the packet when it sees the header. */
    __atomic_store_n((u32 *)slot, first, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue->doorbell_signal, (int64_t)index);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

int main(void)
{
    Handle gpu = {0};
    MUST(hsa_init());
    hsa_iterate_agents(find_gpu, &gpu);
    Handle executable = load(gpu);
    u64 give_up = kernel(executable, gpu, "give_up.kd"), no_code = kernel(executable, gpu, "no_code.kd");
    for (int mistake = 0; mistake < MISTAKES; mistake++)
        MUST(hsa_queue_create(gpu, 64, MANY_PRODUCERS, queue_error, &told[mistake], UINT32_MAX, UINT32_MAX,
                              &told[mistake].queue));
    for (int mistake = 0; mistake < MISTAKES; mistake++) {
        Packet packet = {.header = DISPATCH | SYSTEM_FENCES, .setup = 1, .workgroup = {64, 1, 1}, .grid = {64, 1, 1}};
        packet.kernel_object = mistake == NO_KERNEL ? 0 : mistake == NO_INSTRUCTION ? no_code : give_up;
        if (mistake == PACKET_TYPE)
            packet.header = NO_SUCH_TYPE | SYSTEM_FENCES;
        if (mistake == DIMENSIONS)
            packet.setup = 0;
        if (mistake == WORKGROUP_SIZE)
            packet.workgroup[0] = packet.grid[0] = 4096;
        if (mistake == LOCAL_MEMORY)
            packet.group_segment = 1 << 20;
        submit(told[mistake].queue, packet);
        for (int tries = 0; tries < 10000 && calls(mistake) == 0; tries++)
            sleep_ms(5);
        if (calls(mistake) == 0)
            return fprintf(stderr, "hsa_errors: %s: nothing is told\n", NAMES[mistake]), 1;
        for (int other = mistake + 1; other < MISTAKES; other++)
            if (calls(other) != 0)
                return fprintf(stderr, "hsa_errors: %s: %s is told, too\n", NAMES[mistake], NAMES[other]), 1;
    }
    /* Time for calls that are one too many. */
    sleep_ms(300);
    int failed = 0;
    for (int mistake = 0; mistake < MISTAKES; mistake++) {
        struct Told *of = &told[mistake];
        MUST(hsa_queue_destroy(of->queue));
        const char *text = "";
        hsa_status_string(of->status, &text);
        printf("%s %.*s %d\n", NAMES[mistake], (int)strcspn(text, ":"), text, calls(mistake));
        failed |= calls(mistake) != 1 || of->named != of->queue;
    }
    MUST(hsa_shut_down());
    return failed;
}
