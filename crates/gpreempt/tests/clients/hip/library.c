/* Device code of hip_suite that uses ROCm's device library: grid barriers, the heap of the device, output through the
 * host. The functions are declared here as the headers of HIP would: the library is bitcode. */
typedef unsigned int u32;
typedef unsigned long u64;

#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"))) void

void __ockl_grid_sync(void);
u64 __ockl_dm_alloc(u64 size);
void __ockl_dm_dealloc(u64 address);
u64 __ockl_printf_begin(u64 version);
u64 __ockl_fprintf_stderr_begin(void);
u64 __ockl_printf_append_args(u64 message, u32 count, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u32 is_last);
u64 __ockl_printf_append_string_n(u64 message, const char *text, u64 length, u32 is_last);

static inline u32 lane(void) { return __builtin_amdgcn_workitem_id_x(); }
static inline u32 group(void) { return __builtin_amdgcn_workgroup_id_x(); }

/* Every item takes the number of the group that follows, in rounds that all groups begin together. The numbers go from
 * one half of `cells` to the other. */
KERNEL pass_on(u32 *cells, u32 groups, u32 width, u32 rounds)
{
    u32 *from = cells, *to = cells + groups * width;
    for (u32 round = 0; round < rounds; round++) {
        u32 value = from[(group() + 1) % groups * width + lane()];
        to[group() * width + lane()] = value * 1664525 + round;
        __ockl_grid_sync();
        u32 *other = from;
        from = to;
        to = other;
    }
}

/* Each item gets memory of its own, of another size, and fills it. */
KERNEL take_memory(u32 **blocks, u32 seed)
{
    u32 item = group() * 64 + lane(), words = 1 + item % 61;
    u32 *block = (u32 *)__ockl_dm_alloc(words * sizeof(u32));
    for (u32 i = 0; block && i < words; i++)
        block[i] = seed + item * 64 + i;
    blocks[item] = block;
}

/* Sums up what each item left in its memory, and gives that back. */
KERNEL give_memory(u32 **blocks, u64 *sums)
{
    u32 item = group() * 64 + lane(), words = 1 + item % 61;
    u64 sum = 0;
    for (u32 i = 0; blocks[item] && i < words; i++)
        sum += blocks[item][i];
    sums[item] = sum;
    __ockl_dm_dealloc((u64)blocks[item]);
}

#define TEXT(literal) literal, sizeof literal

/* printf("lane %u of %s: %.3f\n", ...) in the first `lanes` lanes. */
KERNEL say(u32 lanes, double number)
{
    if (lane() >= lanes)
        return;
    double scaled = number * lane();
    u64 message = __ockl_printf_begin(0);
    message = __ockl_printf_append_string_n(message, TEXT("lane %u of %s: %.3f\n"), 0);
    message = __ockl_printf_append_args(message, 1, lane(), 0, 0, 0, 0, 0, 0, 0);
    message = __ockl_printf_append_string_n(message, TEXT("a group"), 0);
    __ockl_printf_append_args(message, 1, __builtin_bit_cast(u64, scaled), 0, 0, 0, 0, 0, 0, 1);
}

/* assert(item < limit), as HIP's headers expand it. */
KERNEL insist(u32 limit)
{
    if (lane() < limit)
        return;
    u64 message = __ockl_fprintf_stderr_begin();
    message = __ockl_printf_append_string_n(message, TEXT("%s:%u: Device-side assertion `%s' failed.\n"), 0);
    message = __ockl_printf_append_string_n(message, TEXT("library.c"), 0);
    message = __ockl_printf_append_args(message, 1, __LINE__, 0, 0, 0, 0, 0, 0, 0);
    __ockl_printf_append_string_n(message, TEXT("item < limit"), 1);
    __builtin_trap();
}
