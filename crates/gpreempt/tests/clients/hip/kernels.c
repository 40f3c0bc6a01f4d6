/* Device code of hip_suite, compiled for gfx942 without contraction of multiplications and additions, so that the host
 * can compute the same bits. What a kernel writes depends on its arguments alone, never on the order of its waves. */
typedef unsigned int u32;
typedef unsigned long u64;

#define GLOBAL __attribute__((address_space(1)))
/* Local memory holds nothing before a kernel writes it. */
#define LOCAL static __attribute__((address_space(3), loader_uninitialized))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"))) void

static inline u32 lane(void) { return __builtin_amdgcn_workitem_id_x(); }
static inline u32 group(void) { return __builtin_amdgcn_workgroup_id_x(); }

static inline void barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* A variable that the host finds by name. */
__attribute__((visibility("protected"))) GLOBAL u32 bias = 7;

KERNEL axpy(GLOBAL const u32 *x, GLOBAL u32 *y, u32 a, u32 n)
{
    u32 i = group() * 256 + lane();
    if (i < n)
        y[i] = a * x[i] + y[i];
}

KERNEL add_bias(GLOBAL u32 *y, u32 n)
{
    u32 i = group() * 256 + lane();
    if (i < n)
        y[i] += bias;
}

/* The sum of every group by a tree in local memory, all of them into one number by atomics. */
KERNEL reduce(GLOBAL const u32 *in, GLOBAL u64 *sum, u32 n)
{
    LOCAL u32 part[256];
    u32 i = group() * 256 + lane();
    part[lane()] = i < n ? in[i] & 0xffff : 0;
    barrier();
    for (u32 half = 128; half > 0; half /= 2) {
        if (lane() < half)
            part[lane()] += part[lane() + half];
        barrier();
    }
    if (lane() == 0)
        __atomic_fetch_add((u64 *)sum, (u64)part[0], __ATOMIC_RELAXED);
}

/* Every group counts itself once and every lane each of its steps, whatever stops them in between. */
KERNEL exactly_once(GLOBAL u32 *groups, GLOBAL u32 *steps_of_lane, u32 steps)
{
    if (lane() == 0)
        __atomic_fetch_add((u32 *)&groups[group()], 1, __ATOMIC_RELAXED);
    for (u32 step = 0; step < steps; step++)
        __atomic_fetch_add((u32 *)&steps_of_lane[group() * 64 + lane()], 1, __ATOMIC_RELAXED);
}

KERNEL histogram(GLOBAL const u32 *in, GLOBAL u32 *bins, u32 n)
{
    LOCAL u32 own[64];
    if (lane() < 64)
        own[lane()] = 0;
    barrier();
    for (u32 i = group() * 256 + lane(); i < n; i += 256 * 8)
        __scoped_atomic_fetch_add(&own[in[i] >> 26], 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
    barrier();
    if (lane() < 64)
        __atomic_fetch_add((u32 *)&bins[lane()], own[lane()], __ATOMIC_RELAXED);
}

/* An array of each lane's own, indexed by data: it lives in scratch memory. */
KERNEL scratch(GLOBAL const u32 *in, GLOBAL u32 *out, u32 n)
{
    u32 box[256];
    u32 i = group() * 256 + lane();
    if (i >= n)
        return;
    for (u32 k = 0; k < 256; k++)
        box[k] = in[i] * (k + 1);
    u32 value = in[i];
    for (u32 k = 0; k < 48; k++) {
        u32 at = value >> 24;
        value = value * 1664525 + box[at];
        box[(at + k) & 255] ^= value;
    }
    out[i] = value;
}

/* c = a b, square, in tiles of 16 by 16. */
KERNEL matmul(GLOBAL const float *a, GLOBAL const float *b, GLOBAL float *c, u32 n)
{
    LOCAL float left[16][16], right[16][16];
    u32 x = lane(), y = __builtin_amdgcn_workitem_id_y();
    u32 column = group() * 16 + x, row = __builtin_amdgcn_workgroup_id_y() * 16 + y;
    float sum = 0;
    for (u32 tile = 0; tile < n; tile += 16) {
        left[y][x] = a[row * n + tile + x];
        right[y][x] = b[(tile + y) * n + column];
        barrier();
        for (u32 k = 0; k < 16; k++)
            sum += left[y][k] * right[k][x];
        barrier();
    }
    c[row * n + column] = sum;
}

/* One step of gradient descent on |X w - t|^2, which contracts towards its minimum: residuals, then weights. */
KERNEL residual(GLOBAL const float *x, GLOBAL const float *w, GLOBAL const float *t, GLOBAL float *r, u32 rows, u32 columns)
{
    u32 i = group() * 64 + lane();
    if (i >= rows)
        return;
    float sum = -t[i];
    for (u32 k = 0; k < columns; k++)
        sum += x[i * columns + k] * w[k];
    r[i] = sum;
}

KERNEL descend(GLOBAL const float *x, GLOBAL float *w, GLOBAL const float *r, u32 rows, u32 columns, float rate)
{
    u32 k = group() * 64 + lane();
    if (k >= columns)
        return;
    float sum = 0;
    for (u32 i = 0; i < rows; i++)
        sum += x[i * columns + k] * r[i];
    w[k] -= rate * sum;
}

/* Many rounds of xorshift for every item: a kernel that is long enough to be interrupted. */
KERNEL churn(GLOBAL u32 *data, u32 n, u32 rounds)
{
    u32 i = group() * 256 + lane();
    if (i >= n)
        return;
    u32 value = data[i];
    for (u32 k = 0; k < rounds; k++) {
        value ^= value << 13;
        value ^= value >> 17;
        value ^= value << 5;
    }
    data[i] = value;
}

/*
 * Tells for each group on which compute unit it is (HW_ID), and on which XCC (XCC_ID). Both are of one place: a group
 * that was moved between the two reads looks again.
 */
KERNEL where(GLOBAL u32 *places)
{
    if (lane() == 0) {
        u32 unit, xcc;
        do {
            unit = __builtin_amdgcn_s_getreg(4 | 31 << 11);
            xcc = __builtin_amdgcn_s_getreg(20 | 31 << 11);
        } while (__builtin_amdgcn_s_getreg(4 | 31 << 11) != unit);
        places[2 * group()] = unit;
        places[2 * group() + 1] = xcc;
    }
}

/* Ends as an assertion that does not hold. */
KERNEL give_up(u64 unused)
{
    (void)unused;
    if (lane() == 7)
        __builtin_trap();
}

/* Bits that are no instruction. */
KERNEL no_code(u64 unused)
{
    (void)unused;
    __asm__ volatile(".long 0xffffffff");
}

/* Writes where it is told, which may be nowhere. */
KERNEL poke(u64 address)
{
    if (lane() == 0)
        *(GLOBAL u32 *)address = 1;
}
