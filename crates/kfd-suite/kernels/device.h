/* What every kernel needs of the machine, without device libraries.
 *
 * Kernels take explicit arguments only: sizes are passed, nothing is read from the hidden ones, so an argument block is
 * exactly what the parameter list says.
 */
#ifndef DEVICE_H
#define DEVICE_H

#define GLOBAL __attribute__((address_space(1)))
#define LOCAL static __attribute__((address_space(3), loader_uninitialized))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"))) void

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef long i64;

#define LANE ((u32)__builtin_amdgcn_workitem_id_x())
#define ROW ((u32)__builtin_amdgcn_workitem_id_y())
#define GROUP ((u32)__builtin_amdgcn_workgroup_id_x())
#define GROUP_Y ((u32)__builtin_amdgcn_workgroup_id_y())

/* All lanes of the workgroup arrive, and see what the others wrote to local memory before. */
static inline void barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/* Adds to a counter that the whole gpu shares. */
static inline u32 atomic_add(GLOBAL u32 *counter, u32 value)
{
    return __scoped_atomic_fetch_add(counter, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

#endif
