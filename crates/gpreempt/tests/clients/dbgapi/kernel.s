; A kernel for debuggers: its waves wait in a loop until the host or a debugger lets them go on, with known values in
; known registers, and the places that the debugger knows are 256 bytes apart (see places.h).
    .amdgcn_target "amdgcn-amd-amdhsa--gfx942"
    .text
    .protected debugged
    .globl debugged
    .p2align 8
    .type debugged,@function
debugged:
    s_load_dwordx4 s[4:7], s[0:1], 0x0          ; results, control words
    s_mov_b32 s20, 0x01234567
    s_mov_b32 s21, 0                            ; turns of the loop
    s_mov_b32 s24, 0                            ; set by the debugger
    v_add_u32_e32 v8, s20, v0
    v_mov_b32_e32 v2, 0
    v_mov_b32_e32 v3, 1
    s_waitcnt lgkmcnt(0)
    global_atomic_add v2, v3, s[6:7] offset:4   ; this work item has arrived
    s_waitcnt vmcnt(0)
    s_branch wait
    .p2align 8
wait:
    s_add_u32 s21, s21, 1
    s_cmp_lg_u32 s24, 0
    s_cbranch_scc1 steps
    global_load_dword v4, v2, s[6:7] sc0 sc1
    s_waitcnt vmcnt(0)
    v_readfirstlane_b32 s8, v4
    s_cmp_eq_u32 s8, 0
    s_cbranch_scc1 wait
    s_branch steps
    .p2align 8
steps:
    s_mov_b32 s22, 7
    s_add_u32 s22, s22, 5
    s_cmp_eq_u32 s22, 12
    s_cbranch_scc1 over
    s_mov_b32 s22, 63
over:
    v_add_u32_e32 v8, s22, v8
    v_xor_b32_e32 v8, 0x5a5a5a5a, v8
    s_branch marked
    .p2align 8
marked:
    v_add_u32_e32 v8, 1, v8
    s_lshl_b32 s3, s2, 7
    v_add_u32_e32 v5, s3, v0
    v_mul_lo_u32 v8, v8, v5
    v_lshlrev_b32_e32 v5, 2, v5
    global_store_dword v5, v8, s[4:5]
    s_endpgm
.Lend:
    .size debugged, .Lend - debugged

    .rodata
    .p2align 6
    .amdhsa_kernel debugged
        .amdhsa_next_free_vgpr 16
        .amdhsa_next_free_sgpr 32
        .amdhsa_accum_offset 16
        .amdhsa_user_sgpr_kernarg_segment_ptr 1
        .amdhsa_system_sgpr_workgroup_id_x 1
        .amdhsa_kernarg_size 16
    .end_amdhsa_kernel

    .amdgpu_metadata
---
amdhsa.version: [ 1, 2 ]
amdhsa.target: amdgcn-amd-amdhsa--gfx942
amdhsa.kernels:
  - .name: debugged
    .symbol: debugged.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 32
    .vgpr_count: 16
    .agpr_count: 0
    .max_flat_workgroup_size: 128
    .args:
      - { .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global }
      - { .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global }
...
    .end_amdgpu_metadata
