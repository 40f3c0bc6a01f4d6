/* A debugger over the C interface of AMD's debugger library (ROCdbgapi): debugs the program of debuggee.c on whatever
 * gpu there is, and compares what the library tells with what places.h promises.
 *
 *     debugger PROGRAM ARGUMENTS
 *
 * Prints one JSON object: what worked, and the result of the program, which must be that of a run without debugger.
 * $DBGAPI_LOG makes the library tell what it does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <amd-dbgapi/amd-dbgapi.h>

#include "inferior.h"
#include "places.h"

/* Seconds that the library may take to report something. */
enum { PATIENCE = 60 };

static amd_dbgapi_process_id_t process;
static amd_dbgapi_architecture_id_t architecture;
static int notifier = -1;
static amd_dbgapi_wave_id_t waves[WAVES];
static uint64_t entry, results, control;

/* ---- complaints ---- */

static bool complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "debugger: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return false;
}

#define DO(call) succeeded(call, #call)
static bool succeeded(amd_dbgapi_status_t status, const char *call)
{
    const char *text = "?";
    if (status == AMD_DBGAPI_STATUS_SUCCESS)
        return true;
    amd_dbgapi_get_status_string(status, &text);
    return complain("%.60s: %s", call, text);
}

static bool equal(const char *what, uint64_t found, uint64_t wanted)
{
    return found == wanted || complain("%s is %#lx, not %#lx", what, found, wanted);
}

/* ---- what the library asks of its client ---- */

static amd_dbgapi_status_t get_info(amd_dbgapi_client_process_id_t client, amd_dbgapi_client_process_info_t query,
                                    size_t size, void *value)
{
    (void)client;
    if (query != AMD_DBGAPI_CLIENT_PROCESS_INFO_OS_PID || size != sizeof(pid_t))
        return AMD_DBGAPI_STATUS_ERROR_NOT_AVAILABLE;
    *(pid_t *)value = inferior_pid();
    return AMD_DBGAPI_STATUS_SUCCESS;
}

/* The library wants to know when code is loaded. This program loads none while it is debugged. */
static amd_dbgapi_status_t insert(amd_dbgapi_client_process_id_t client, amd_dbgapi_global_address_t address,
                                  amd_dbgapi_breakpoint_id_t id)
{
    (void)client, (void)address, (void)id;
    return AMD_DBGAPI_STATUS_SUCCESS;
}

static amd_dbgapi_status_t take_out(amd_dbgapi_client_process_id_t client, amd_dbgapi_breakpoint_id_t id)
{
    (void)client, (void)id;
    return AMD_DBGAPI_STATUS_SUCCESS;
}

static amd_dbgapi_status_t transfer(amd_dbgapi_client_process_id_t client, amd_dbgapi_global_address_t address,
                                    amd_dbgapi_size_t *size, void *read, const void *written)
{
    (void)client;
    ssize_t done = inferior_memory(address, read, written, *size);
    if (done <= 0)
        return AMD_DBGAPI_STATUS_ERROR_MEMORY_ACCESS;
    *size = (amd_dbgapi_size_t)done;
    return AMD_DBGAPI_STATUS_SUCCESS;
}

static void log_message(amd_dbgapi_log_level_t level, const char *message)
{
    fprintf(stderr, "dbgapi %d: %s\n", level, message);
}

static amd_dbgapi_callbacks_t callbacks = {
    .allocate_memory = malloc,
    .deallocate_memory = free,
    .client_process_get_info = get_info,
    .insert_breakpoint = insert,
    .remove_breakpoint = take_out,
    .xfer_global_memory = transfer,
    .log_message = log_message,
};

/* ---- events ---- */

/* Waits for an event of a kind, of a wave if one is given. Others are processed and forgotten. */
static bool wait_for(amd_dbgapi_event_kind_t wanted, amd_dbgapi_wave_id_t wave, amd_dbgapi_event_id_t *event)
{
    time_t end = time(NULL) + PATIENCE;
    while (time(NULL) < end) {
        amd_dbgapi_event_kind_t kind;
        char bytes[64];
        inferior_pass_signals();
        while (read(notifier, bytes, sizeof bytes) > 0)
            continue;
        if (!DO(amd_dbgapi_process_next_pending_event(process, event, &kind)))
            return false;
        if (kind == AMD_DBGAPI_EVENT_KIND_NONE) {
            struct pollfd ready = {notifier, POLLIN, 0};
            poll(&ready, 1, 200);
            continue;
        }
        amd_dbgapi_wave_id_t about = AMD_DBGAPI_WAVE_NONE;
        if (kind == AMD_DBGAPI_EVENT_KIND_WAVE_STOP || kind == AMD_DBGAPI_EVENT_KIND_WAVE_COMMAND_TERMINATED)
            amd_dbgapi_event_get_info(*event, AMD_DBGAPI_EVENT_INFO_WAVE, sizeof about, &about);
        if (kind == wanted && about.handle == wave.handle)
            return true;
        DO(amd_dbgapi_event_processed(*event));
    }
    return complain("no event of kind %d within %d s", wanted, PATIENCE);
}

static bool wait_for_stop(amd_dbgapi_wave_id_t wave, uint32_t reason)
{
    amd_dbgapi_event_id_t event;
    amd_dbgapi_wave_stop_reasons_t found;
    return wait_for(AMD_DBGAPI_EVENT_KIND_WAVE_STOP, wave, &event)
        && DO(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_STOP_REASON, sizeof found, &found))
        && DO(amd_dbgapi_event_processed(event)) && equal("the stop reason", found, reason);
}

/* ---- registers ---- */

static bool find_register(const char *name, amd_dbgapi_register_id_t *found)
{
    size_t count;
    amd_dbgapi_register_id_t *list;
    if (!DO(amd_dbgapi_architecture_register_list(architecture, &count, &list)))
        return false;
    bool is_found = false;
    for (size_t n = 0; n < count && !is_found; n++) {
        char *text;
        if (amd_dbgapi_register_get_info(list[n], AMD_DBGAPI_REGISTER_INFO_NAME, sizeof text, &text))
            continue;
        is_found = strcmp(text, name) == 0;
        if (is_found)
            *found = list[n];
        free(text);
    }
    free(list);
    return is_found || complain("there is no register %s", name);
}

/* Reads or writes `size` bytes of a register of a wave, from the lane on. */
static bool read_register(amd_dbgapi_wave_id_t wave, const char *name, size_t offset, size_t size, void *value)
{
    amd_dbgapi_register_id_t id;
    return find_register(name, &id) && DO(amd_dbgapi_read_register(wave, id, offset, size, value));
}

static bool write_register(amd_dbgapi_wave_id_t wave, const char *name, size_t size, const void *value)
{
    amd_dbgapi_register_id_t id;
    return find_register(name, &id) && DO(amd_dbgapi_write_register(wave, id, 0, size, value));
}

static bool scalar_is(amd_dbgapi_wave_id_t wave, const char *name, uint32_t wanted)
{
    uint32_t value;
    return read_register(wave, name, 0, sizeof value, &value) && equal(name, value, wanted);
}

static bool pc_of(amd_dbgapi_wave_id_t wave, uint64_t *pc)
{
    return DO(amd_dbgapi_wave_get_info(wave, AMD_DBGAPI_WAVE_INFO_PC, sizeof *pc, pc));
}

static bool pc_is(amd_dbgapi_wave_id_t wave, uint64_t offset)
{
    uint64_t pc;
    return pc_of(wave, &pc) && equal("the program counter, from the entry,", pc - entry, offset);
}

/* ---- what is shown ---- */

static bool attach(void)
{
    amd_dbgapi_event_id_t event;
    amd_dbgapi_runtime_state_t state;
    if (!DO(amd_dbgapi_initialize(&callbacks)))
        return false;
    amd_dbgapi_set_log_level(getenv("DBGAPI_LOG") ? AMD_DBGAPI_LOG_LEVEL_VERBOSE : AMD_DBGAPI_LOG_LEVEL_WARNING);
    return DO(amd_dbgapi_process_attach((amd_dbgapi_client_process_id_t)&callbacks, &process))
        && DO(amd_dbgapi_process_get_info(process, AMD_DBGAPI_PROCESS_INFO_NOTIFIER, sizeof notifier, &notifier))
        && fcntl(notifier, F_SETFL, O_NONBLOCK) == 0
        && wait_for(AMD_DBGAPI_EVENT_KIND_RUNTIME, AMD_DBGAPI_WAVE_NONE, &event)
        && DO(amd_dbgapi_event_get_info(event, AMD_DBGAPI_EVENT_INFO_RUNTIME_STATE, sizeof state, &state))
        && DO(amd_dbgapi_event_processed(event))
        && equal("the state of the runtime", state, AMD_DBGAPI_RUNTIME_STATE_LOADED_SUCCESS);
}

static int by_handle(const void *left, const void *right)
{
    const amd_dbgapi_wave_id_t *a = left, *b = right;
    return (a->handle > b->handle) - (a->handle < b->handle);
}

static bool list_waves(amd_dbgapi_dispatch_id_t dispatch)
{
    size_t count;
    amd_dbgapi_wave_id_t *found;
    if (!DO(amd_dbgapi_process_wave_list(process, &count, &found, NULL)))
        return false;
    if (!equal("the number of waves", count, WAVES))
        return false;
    memcpy(waves, found, sizeof waves);
    free(found);
    qsort(waves, WAVES, sizeof waves[0], by_handle);
    unsigned seen = 0;
    for (int n = 0; n < WAVES; n++) {
        amd_dbgapi_dispatch_id_t of;
        uint32_t group[3], number;
        if (!DO(amd_dbgapi_wave_get_info(waves[n], AMD_DBGAPI_WAVE_INFO_DISPATCH, sizeof of, &of))
            || !DO(amd_dbgapi_wave_get_info(waves[n], AMD_DBGAPI_WAVE_INFO_WORKGROUP_COORD, sizeof group, group))
            || !DO(amd_dbgapi_wave_get_info(waves[n], AMD_DBGAPI_WAVE_INFO_WAVE_NUMBER_IN_WORKGROUP, sizeof number,
                                            &number))
            || !equal("the dispatch of a wave", of.handle, dispatch.handle))
            return false;
        seen |= 1u << (group[0] * (GROUP_ITEMS / WAVE_ITEMS) + number);
    }
    return equal("the set of waves", seen, (1u << WAVES) - 1);
}

/* One of the gpus runs one dispatch, of the kernel, in a code object that is loaded. */
static bool list(void)
{
    size_t agents, queues, dispatches, objects;
    amd_dbgapi_agent_id_t *agent;
    amd_dbgapi_queue_id_t *queue;
    amd_dbgapi_dispatch_id_t *dispatch;
    amd_dbgapi_code_object_id_t *object;
    if (!DO(amd_dbgapi_process_agent_list(process, &agents, &agent, NULL))
        || !DO(amd_dbgapi_process_queue_list(process, &queues, &queue, NULL))
        || !DO(amd_dbgapi_process_dispatch_list(process, &dispatches, &dispatch, NULL))
        || !DO(amd_dbgapi_process_code_object_list(process, &objects, &object, NULL)))
        return false;
    if (agents == 0 || queues == 0 || objects == 0)
        return complain("%zu agents, %zu queues, %zu code objects", agents, queues, objects);
    uint32_t grid[3];
    uint64_t code = 0, load = 0, arguments = 0, given[2];
    amd_dbgapi_agent_id_t of;
    amd_dbgapi_queue_id_t on;
    if (!equal("the number of dispatches", dispatches, 1)
        || !DO(amd_dbgapi_dispatch_get_info(dispatch[0], AMD_DBGAPI_DISPATCH_INFO_AGENT, sizeof of, &of))
        || !DO(amd_dbgapi_agent_get_info(of, AMD_DBGAPI_AGENT_INFO_ARCHITECTURE, sizeof architecture, &architecture))
        || !DO(amd_dbgapi_dispatch_get_info(dispatch[0], AMD_DBGAPI_DISPATCH_INFO_QUEUE, sizeof on, &on))
        || !DO(amd_dbgapi_dispatch_get_info(dispatch[0], AMD_DBGAPI_DISPATCH_INFO_GRID_SIZES, sizeof grid, grid))
        || !equal("the grid", grid[0], ITEMS)
        || !DO(amd_dbgapi_dispatch_get_info(dispatch[0], AMD_DBGAPI_DISPATCH_INFO_KERNEL_CODE_ENTRY_ADDRESS,
                                            sizeof entry, &entry))
        || !DO(amd_dbgapi_dispatch_get_info(dispatch[0], AMD_DBGAPI_DISPATCH_INFO_KERNEL_ARGUMENT_SEGMENT_ADDRESS,
                                            sizeof arguments, &arguments)))
        return false;
    unsigned known = 0;
    for (size_t n = 0; n < agents; n++)
        known |= agent[n].handle == of.handle ? 1 : 0;
    for (size_t n = 0; n < queues; n++)
        known |= queue[n].handle == on.handle ? 2 : 0;
    if (!equal("whether agent and queue of the dispatch are listed", known, 3))
        return false;
    /* The code object of the kernel is the one that begins last before it. */
    for (size_t n = 0; n < objects; n++) {
        if (DO(amd_dbgapi_code_object_get_info(object[n], AMD_DBGAPI_CODE_OBJECT_INFO_LOAD_ADDRESS, sizeof load, &load))
            && load <= entry && load > code)
            code = load;
    }
    if (code == 0 || entry - code > 1 << 16)
        return complain("no code object holds the kernel at %#lx", entry);
    if (inferior_memory(arguments, given, NULL, sizeof given) != sizeof given)
        return complain("the arguments cannot be read");
    if (!equal("the first argument", given[0], results) || !equal("the second argument", given[1], control))
        return false;
    return list_waves(dispatch[0]);
}

/* All waves stop, in the loop. */
static bool stop(void)
{
    for (int n = 0; n < WAVES; n++)
        if (!DO(amd_dbgapi_wave_stop(waves[n])))
            return false;
    for (int n = 0; n < WAVES; n++) {
        uint64_t pc;
        if (!wait_for_stop(waves[n], AMD_DBGAPI_WAVE_STOP_REASON_NONE) || !pc_of(waves[n], &pc))
            return false;
        if (pc - entry < WAIT || pc - entry >= WAIT_END)
            return complain("a wave is at %#lx, not in the loop", pc - entry);
    }
    return true;
}

static bool registers(void)
{
    for (int n = 0; n < WAVES; n++) {
        uint32_t group[3], number, lanes[WAVE_ITEMS], pointer[2];
        uint64_t exec;
        if (!DO(amd_dbgapi_wave_get_info(waves[n], AMD_DBGAPI_WAVE_INFO_WORKGROUP_COORD, sizeof group, group))
            || !DO(amd_dbgapi_wave_get_info(waves[n], AMD_DBGAPI_WAVE_INFO_WAVE_NUMBER_IN_WORKGROUP, sizeof number,
                                            &number))
            || !scalar_is(waves[n], "s20", KNOWN) || !scalar_is(waves[n], "s24", 0)
            || !scalar_is(waves[n], "s2", group[0]) || !read_register(waves[n], "s4", 0, 4, &pointer[0])
            || !read_register(waves[n], "s5", 0, 4, &pointer[1])
            || !equal("s[4:5]", (uint64_t)pointer[1] << 32 | pointer[0], results)
            || !read_register(waves[n], "exec", 0, sizeof exec, &exec) || !equal("exec", exec, ~0ull)
            || !read_register(waves[n], "v8", 0, sizeof lanes, lanes))
            return false;
        for (uint32_t lane = 0; lane < WAVE_ITEMS; lane++)
            if (!equal("a lane of v8", lanes[lane], KNOWN + number * WAVE_ITEMS + lane))
                return false;
    }
    return true;
}

/* Waves that are resumed run: they count turns of the loop. */
static bool resume(void)
{
    uint32_t before[WAVES], after;
    for (int n = 0; n < WAVES; n++)
        if (!read_register(waves[n], "s21", 0, 4, &before[n])
            || !DO(amd_dbgapi_wave_resume(waves[n], AMD_DBGAPI_RESUME_MODE_NORMAL, AMD_DBGAPI_EXCEPTION_NONE)))
            return false;
    time_t end = time(NULL) + PATIENCE;
    for (;;) {
        int ahead = 0;
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        if (!stop())
            return false;
        for (int n = 0; n < WAVES; n++)
            ahead += read_register(waves[n], "s21", 0, 4, &after) && after > before[n];
        if (ahead == WAVES)
            return true;
        if (time(NULL) > end)
            return complain("only %d of %d waves go on", ahead, WAVES);
        for (int n = 0; n < WAVES; n++)
            if (!DO(amd_dbgapi_wave_resume(waves[n], AMD_DBGAPI_RESUME_MODE_NORMAL, AMD_DBGAPI_EXCEPTION_NONE)))
                return false;
    }
}

static bool step(amd_dbgapi_wave_id_t wave, uint64_t offset)
{
    return DO(amd_dbgapi_wave_resume(wave, AMD_DBGAPI_RESUME_MODE_SINGLE_STEP, AMD_DBGAPI_EXCEPTION_NONE))
        && wait_for_stop(wave, AMD_DBGAPI_WAVE_STOP_REASON_SINGLE_STEP) && pc_is(wave, offset);
}

/* Where the instructions of the loop lead while s24 is not 0. */
static uint64_t after(uint64_t offset)
{
    switch (offset - WAIT) {
    case 0x08: return STEPS;
    case 0x0c: return offset + 8;
    case 0x20: return WAIT;
    case 0x24: return STEPS;
    default: return offset + 4;
    }
}

/* A wave leaves the loop because a register of it is written, and goes on in steps, over instructions of 4 and 8 bytes
 * and branches that are taken and are not. The others stay stopped. */
static bool single_step(void)
{
    uint32_t one = 1;
    uint64_t pc;
    if (!write_register(waves[0], "s24", sizeof one, &one) || !scalar_is(waves[0], "s24", 1))
        return false;
    do {
        if (!pc_of(waves[0], &pc) || !step(waves[0], after(pc - entry)))
            return false;
    } while (after(pc - entry) != STEPS);
    return step(waves[0], STEPS + 4) && scalar_is(waves[0], "s22", 7) && step(waves[0], STEPS + 8)
        && scalar_is(waves[0], "s22", STEPPED) && step(waves[0], STEPS + 12) && step(waves[0], OVER)
        && scalar_is(waves[0], "s22", STEPPED) && step(waves[0], OVER + 4);
}

/* The breakpoint of the architecture in the place of an instruction: a wave that runs stops there, steps over it with
 * the library's help, and goes on when the instruction is back. */
static bool breakpoint(void)
{
    uint8_t *instruction, original[16], before[64];
    amd_dbgapi_size_t size, adjust, largest;
    amd_dbgapi_displaced_stepping_id_t displaced;
    uint64_t place = entry + MARKED, pc;
    if (!DO(amd_dbgapi_architecture_get_info(architecture, AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION_SIZE,
                                             sizeof size, &size))
        || !DO(amd_dbgapi_architecture_get_info(architecture, AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION,
                                                sizeof instruction, &instruction))
        || !DO(amd_dbgapi_architecture_get_info(
            architecture, AMD_DBGAPI_ARCHITECTURE_INFO_BREAKPOINT_INSTRUCTION_PC_ADJUST, sizeof adjust, &adjust))
        || !DO(amd_dbgapi_architecture_get_info(architecture, AMD_DBGAPI_ARCHITECTURE_INFO_LARGEST_INSTRUCTION_SIZE,
                                                sizeof largest, &largest))
        || size > sizeof original || largest > sizeof before)
        return false;
    if (inferior_memory(place, before, NULL, largest) != (ssize_t)largest
        || inferior_memory(place, NULL, instruction, size) != (ssize_t)size)
        return complain("the code at %#lx: %s", place, strerror(errno));
    memcpy(original, before, size);
    bool is_hit = DO(amd_dbgapi_wave_resume(waves[0], AMD_DBGAPI_RESUME_MODE_NORMAL, AMD_DBGAPI_EXCEPTION_NONE))
        && wait_for_stop(waves[0], AMD_DBGAPI_WAVE_STOP_REASON_BREAKPOINT) && pc_is(waves[0], MARKED + adjust);
    pc = place;
    bool is_passed = is_hit && write_register(waves[0], "pc", sizeof pc, &pc)
        && DO(amd_dbgapi_displaced_stepping_start(waves[0], original, &displaced))
        && DO(amd_dbgapi_wave_resume(waves[0], AMD_DBGAPI_RESUME_MODE_SINGLE_STEP, AMD_DBGAPI_EXCEPTION_NONE))
        && wait_for_stop(waves[0], AMD_DBGAPI_WAVE_STOP_REASON_SINGLE_STEP)
        && DO(amd_dbgapi_displaced_stepping_complete(waves[0], displaced)) && pc_is(waves[0], MARKED + 4);
    if (inferior_memory(place, NULL, original, size) != (ssize_t)size)
        return complain("the code cannot be put back");
    free(instruction);
    return is_passed;
}

static bool detach(void)
{
    return DO(amd_dbgapi_process_detach(process)) && DO(amd_dbgapi_finalize());
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        bool (*show)(void);
    } stages[] = {
        {"attach", attach}, {"list", list},   {"stop", stop},   {"registers", registers},
        {"resume", resume}, {"single_step", single_step}, {"breakpoint", breakpoint},
    };
    char line[128] = "";
    if (count < 2) {
        fprintf(stderr, "usage: %s PROGRAM ARGUMENTS\n", words[0]);
        return 2;
    }
    bool works = inferior_start(words + 1) && inferior_line("running", line, sizeof line)
        && sscanf(line, "0x%lx 0x%lx", &results, &control) == 2;
    if (!works)
        return complain("the program does not start"), 1;
    bool is_attached = false;
    uint32_t major, minor, patch;
    amd_dbgapi_get_version(&major, &minor, &patch);
    printf("{\"version\":\"%u.%u.%u\",", major, minor, patch);
    for (size_t n = 0; n < sizeof stages / sizeof stages[0]; n++) {
        works = works && stages[n].show();
        is_attached |= n == 0 && works;
        printf("\"%s\":%s,", stages[n].name, works ? "true" : "false");
    }
    /* Also if something has failed: whatever the waves are at, they must go on. */
    bool is_detached = is_attached && detach();
    bool is_right = inferior_write("go\n") && inferior_line("result", line, sizeof line);
    is_right = inferior_end() && is_right;
    printf("\"detach\":%s,\"result\":\"%s\"}\n", is_detached ? "true" : "false", is_right ? line : "");
    return !(works && is_detached && is_right);
}
