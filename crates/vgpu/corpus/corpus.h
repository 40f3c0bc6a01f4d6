/* One source, two machines: a kernel for gfx942 and a function for the host that does the same for every item.
 *
 *   KERNEL(name, In, Out)            body for one item: in, out, n, item
 *   GRID_KERNEL(name, In, Out)       body for one item of a grid: in, out, n, x, y, z; sizes are GRID_* and TILE_*
 *   GROUP_KERNEL(name, In, Out, Shared)  body for a workgroup of GROUP lanes: in, out, n, group, shared; see EACH
 *
 * On the device they become `void name(In *in, Out *out, int n)`, on the host `void name_host(...)` with the same
 * arguments. Both sides are compiled without contraction of multiplications and additions, so IEEE arithmetic gives
 * the same bits; what IEEE leaves open (the bits of a NaN, the sign of the zero that a minimum of two zeroes is) the
 * kernels settle themselves, with bits32 and its kind.
 */
#ifndef CORPUS_H
#define CORPUS_H

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long i64;
typedef unsigned long u64;
typedef _Float16 f16;
typedef float f32;
typedef double f64;

/* Lanes of a workgroup, where a file does not say otherwise. */
#ifndef GROUP
#define GROUP 64
#endif
#define WAVE 64

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))

#ifdef __AMDGCN__

#define GLOBAL __attribute__((address_space(1)))
#define LOCAL __attribute__((address_space(3)))
#define DEVICE_KERNEL __attribute__((amdgpu_kernel, visibility("protected"))) void

INLINE void corpus_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#define KERNEL(name, In, Out)                                                                                          \
    INLINE void name##_item(GLOBAL const In *in, GLOBAL Out *out, int n, int item);                                    \
    DEVICE_KERNEL name(GLOBAL const In *in, GLOBAL Out *out, int n)                                                    \
    {                                                                                                                  \
        int item = (int)(__builtin_amdgcn_workgroup_id_x() * GROUP + __builtin_amdgcn_workitem_id_x());                \
        if (item < n)                                                                                                  \
            name##_item(in, out, n, item);                                                                             \
    }                                                                                                                  \
    INLINE void name##_item(GLOBAL const In *in, GLOBAL Out *out, int n, int item)

#define GRID_KERNEL(name, In, Out)                                                                                     \
    INLINE void name##_item(GLOBAL const In *in, GLOBAL Out *out, int n, int x, int y, int z);                         \
    DEVICE_KERNEL name(GLOBAL const In *in, GLOBAL Out *out, int n)                                                    \
    {                                                                                                                  \
        int x = (int)(__builtin_amdgcn_workgroup_id_x() * TILE_X + __builtin_amdgcn_workitem_id_x());                  \
        int y = (int)(__builtin_amdgcn_workgroup_id_y() * TILE_Y + __builtin_amdgcn_workitem_id_y());                  \
        int z = (int)(__builtin_amdgcn_workgroup_id_z() * TILE_Z + __builtin_amdgcn_workitem_id_z());                  \
        name##_item(in, out, n, x, y, z);                                                                              \
    }                                                                                                                  \
    INLINE void name##_item(GLOBAL const In *in, GLOBAL Out *out, int n, int x, int y, int z)

#define GROUP_KERNEL(name, In, Out, Shared)                                                                            \
    static LOCAL __attribute__((loader_uninitialized)) Shared name##_shared;                                           \
    INLINE void name##_group(GLOBAL const In *in, GLOBAL Out *out, int n, int group, LOCAL Shared *shared);            \
    DEVICE_KERNEL name(GLOBAL const In *in, GLOBAL Out *out, int n)                                                    \
    {                                                                                                                  \
        name##_group(in, out, n, (int)__builtin_amdgcn_workgroup_id_x(), &name##_shared);                              \
    }                                                                                                                  \
    INLINE void name##_group(GLOBAL const In *in, GLOBAL Out *out, int n, int group, LOCAL Shared *shared)

/* What every lane does; afterwards all see what the others did. Here: this lane, then a barrier. */
#define EACH(...)                                                                                                      \
    do {                                                                                                               \
        int lane = (int)__builtin_amdgcn_workitem_id_x();                                                              \
        int slot = 0;                                                                                                  \
        (void)lane, (void)slot;                                                                                        \
        __VA_ARGS__                                                                                                    \
        corpus_barrier();                                                                                              \
    } while (0)

/* A variable that each lane has for itself, from one EACH to the next; inside EACH it is MY(variable). */
#define PRIVATE(type, variable) type variable[1]

/* Between lanes of a wave: each gets what another lane has in `from`. `source` may use `lane`. 32-bit integers. */
#define SHUFFLE(to, from, source)                                                                                      \
    EACH(MY(to) = (i32)__builtin_amdgcn_ds_bpermute(((source) & (WAVE - 1)) * 4, MY(from));)
/* A bit for each lane of the wave whose `from` is not zero. */
#define BALLOT(to, from) EACH(MY(to) = __builtin_amdgcn_ballot_w64(MY(from) != 0);)
/* What the first lane of the wave has. */
#define FIRST(to, from) EACH(MY(to) = (i32)__builtin_amdgcn_readfirstlane(MY(from));)

#else

#define GLOBAL
#define LOCAL

#define KERNEL(name, In, Out)                                                                                          \
    static void name##_item(const In *in, Out *out, int n, int item);                                                  \
    void name##_host(const In *in, Out *out, int n)                                                                    \
    {                                                                                                                  \
        for (int item = 0; item < n; item++)                                                                           \
            name##_item(in, out, n, item);                                                                             \
    }                                                                                                                  \
    static void name##_item(const In *in, Out *out, int n, int item)

#define GRID_KERNEL(name, In, Out)                                                                                     \
    static void name##_item(const In *in, Out *out, int n, int x, int y, int z);                                       \
    void name##_host(const In *in, Out *out, int n)                                                                    \
    {                                                                                                                  \
        for (int z = 0; z < GRID_Z; z++)                                                                               \
            for (int y = 0; y < GRID_Y; y++)                                                                           \
                for (int x = 0; x < GRID_X; x++)                                                                       \
                    name##_item(in, out, n, x, y, z);                                                                  \
    }                                                                                                                  \
    static void name##_item(const In *in, Out *out, int n, int x, int y, int z)

#define GROUP_KERNEL(name, In, Out, Shared)                                                                            \
    static void name##_group(const In *in, Out *out, int n, int group, Shared *shared);                                \
    void name##_host(const In *in, Out *out, int n)                                                                    \
    {                                                                                                                  \
        static Shared shared;                                                                                          \
        for (int group = 0; group < n / GROUP; group++)                                                                \
            name##_group(in, out, n, group, &shared);                                                                  \
    }                                                                                                                  \
    static void name##_group(const In *in, Out *out, int n, int group, Shared *shared)

#define EACH(...)                                                                                                      \
    do {                                                                                                               \
        for (int lane = 0; lane < GROUP; lane++) {                                                                     \
            int slot = lane;                                                                                           \
            (void)slot;                                                                                                \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    } while (0)

#define PRIVATE(type, variable) type variable[GROUP]
#define SHUFFLE(to, from, source) EACH(MY(to) = from[(lane & ~(WAVE - 1)) | ((source) & (WAVE - 1))];)
#define BALLOT(to, from)                                                                                               \
    EACH(MY(to) = 0; for (int bit = 0; bit < WAVE; bit++) MY(to) |=                                                    \
         (u64)(from[(lane & ~(WAVE - 1)) | bit] != 0) << bit;)
#define FIRST(to, from) EACH(MY(to) = from[lane & ~(WAVE - 1)];)

#endif

#define MY(variable) variable[slot]

/* The bits of a number, with one NaN for all. */
INLINE u16 bits16(f16 x)
{
    return x != x ? 0x7E00 : __builtin_bit_cast(u16, x);
}

INLINE u32 bits32(f32 x)
{
    return x != x ? 0x7FC00000u : __builtin_bit_cast(u32, x);
}

INLINE u64 bits64(f64 x)
{
    return x != x ? 0x7FF8000000000000ul : __builtin_bit_cast(u64, x);
}

/* The same with one zero for both. */
INLINE u32 bits32_one_zero(f32 x)
{
    return x == 0 ? 0 : bits32(x);
}

INLINE u64 bits64_one_zero(f64 x)
{
    return x == 0 ? 0 : bits64(x);
}

/* Arithmetic that wraps, whatever the sign. */
INLINE i32 wrap_add(i32 a, i32 b)
{
    return (i32)((u32)a + (u32)b);
}

INLINE i32 wrap_sub(i32 a, i32 b)
{
    return (i32)((u32)a - (u32)b);
}

INLINE i32 wrap_mul(i32 a, i32 b)
{
    return (i32)((u32)a * (u32)b);
}

INLINE u32 rotate_left(u32 x, u32 by)
{
    return x << (by & 31) | x >> (-by & 31);
}

INLINE u64 rotate_left_64(u64 x, u32 by)
{
    return x << (by & 63) | x >> (-by & 63);
}

#endif
