//! Kernels for gfx942, assembled by llvm-mc-19 from the text above each.

/// `out[i] = in[i] + 7`; arguments: in, out, work items of a group.
/// ```text
/// s_load_dwordx4 s[4:7], s[0:1], 0x0
/// s_load_dword s3, s[0:1], 0x10
/// s_waitcnt lgkmcnt(0)
/// s_mul_i32 s2, s2, s3
/// v_add_u32_e32 v0, s2, v0
/// v_lshlrev_b32_e32 v0, 2, v0
/// global_load_dword v1, v0, s[4:5]
/// s_waitcnt vmcnt(0)
/// v_add_u32_e32 v1, 7, v1
/// global_store_dword v0, v1, s[6:7]
/// s_endpgm
/// ```
pub(super) const ADD: &[u32] = &[
    0xC00A0100, 0x00000000, 0xC00200C0, 0x00000010, 0xBF8CC07F, 0x92020302, 0x68000002, 0x24000082, 0xDC508000,
    0x01040000, 0xBF8C0F70, 0x68020287, 0xDC708000, 0x00060100, 0xBF810000,
];

/// Reverses the numbers of 1024 work items, plus 0x12345, through LDS; argument: out.
/// ```text
/// s_load_dwordx2 s[4:5], s[0:1], 0x0
/// v_lshlrev_b32_e32 v1, 2, v0
/// v_add_u32_e32 v2, 0x12345, v0
/// ds_write_b32 v1, v2
/// s_waitcnt lgkmcnt(0)
/// s_barrier
/// v_sub_u32_e32 v3, 0xffc, v1
/// ds_read_b32 v4, v3
/// s_waitcnt lgkmcnt(0)
/// s_barrier
/// global_store_dword v1, v4, s[4:5]
/// s_endpgm
/// ```
pub(super) const REVERSE: &[u32] = &[
    0xC0060100, 0x00000000, 0x24020082, 0x680400FF, 0x00012345, 0xD81A0000, 0x00000201, 0xBF8CC07F, 0xBF8A0000,
    0x6A0602FF, 0x00000FFC, 0xD86C0000, 0x04000003, 0xBF8CC07F, 0xBF8A0000, 0xDC708000, 0x00040401, 0xBF810000,
];

/// Waits until a word is not zero, then stores 99; arguments: the word, out.
/// ```text
/// s_load_dwordx4 s[4:7], s[0:1], 0x0
/// s_waitcnt lgkmcnt(0)
/// loop:
/// s_load_dword s8, s[4:5], 0x0 glc
/// s_waitcnt lgkmcnt(0)
/// s_cmp_lg_u32 s8, 0
/// s_cbranch_scc1 go
/// s_sleep 1
/// s_branch loop
/// go:
/// v_mov_b32_e32 v1, 0
/// v_mov_b32_e32 v2, 99
/// global_store_dword v1, v2, s[6:7]
/// s_endpgm
/// ```
pub(super) const SPIN: &[u32] = &[
    0xC00A0100, 0x00000000, 0xBF8CC07F, 0xC0030202, 0x00000000, 0xBF8CC07F, 0xBF078008, 0xBF850002, 0xBF8E0001,
    0xBF82FFF9, 0x7E020280, 0x7E0402FF, 0x00000063, 0xDC708000, 0x00060201, 0xBF810000,
];

/// Stores v0 to `out[(y * 2 + x) * 64 + lane]`; argument: out. Wants workgroup numbers x and y.
/// ```text
/// s_load_dwordx2 s[4:5], s[0:1], 0x0
/// v_mbcnt_lo_u32_b32 v1, -1, 0
/// v_mbcnt_hi_u32_b32 v1, -1, v1
/// s_lshl_b32 s3, s3, 1
/// s_add_u32 s2, s2, s3
/// s_lshl_b32 s2, s2, 6
/// v_add_u32_e32 v1, s2, v1
/// v_lshlrev_b32_e32 v1, 2, v1
/// s_waitcnt lgkmcnt(0)
/// global_store_dword v1, v0, s[4:5]
/// s_endpgm
/// ```
pub(super) const ITEM: &[u32] = &[
    0xC0060100, 0x00000000, 0xD28C0001, 0x000100C1, 0xD28D0001, 0x000202C1, 0x8E038103, 0x80020302, 0x8E028602,
    0x68020202, 0x24020282, 0xBF8CC07F, 0xDC708000, 0x00040001, 0xBF810000,
];

/// Adds one to a word for each wave; argument: the word.
/// ```text
/// s_load_dwordx2 s[4:5], s[0:1], 0x0
/// v_mov_b32_e32 v1, 0
/// v_mov_b32_e32 v2, 1
/// s_mov_b64 exec, 1
/// s_waitcnt lgkmcnt(0)
/// global_atomic_add v1, v2, s[4:5]
/// s_endpgm
/// ```
pub(super) const COUNT: &[u32] =
    &[0xC0060100, 0x00000000, 0x7E020280, 0x7E040281, 0xBEFE0181, 0xBF8CC07F, 0xDD088000, 0x00040201, 0xBF810000];

/// Takes v0 + 5 through private memory to `out[v0]`; argument: out.
/// ```text
/// s_load_dwordx2 s[4:5], s[0:1], 0x0
/// v_lshlrev_b32_e32 v1, 2, v0
/// v_add_u32_e32 v2, 5, v0
/// scratch_store_dword off, v2, off offset:8
/// s_waitcnt vmcnt(0)
/// scratch_load_dword v3, off, off offset:8
/// s_waitcnt vmcnt(0) lgkmcnt(0)
/// global_store_dword v1, v3, s[4:5]
/// s_endpgm
/// ```
pub(super) const PRIVATE: &[u32] = &[
    0xC0060100, 0x00000000, 0x24020082, 0x68040085, 0xDC704008, 0x007F0200, 0xBF8C0F70, 0xDC504008, 0x037F0000,
    0xBF8C0070, 0xDC708000, 0x00040301, 0xBF810000,
];

/// The same for gfx90a, where private memory is a buffer (s[0:3]) with an offset for the wave (s9).
/// ```text
/// s_add_u32 s0, s0, s9
/// s_addc_u32 s1, s1, 0
/// s_load_dwordx2 s[10:11], s[4:5], 0x0
/// v_lshlrev_b32_e32 v1, 2, v0
/// v_add_u32_e32 v2, 5, v0
/// buffer_store_dword v2, off, s[0:3], 0 offset:8
/// s_waitcnt vmcnt(0)
/// buffer_load_dword v3, off, s[0:3], 0 offset:8
/// s_waitcnt vmcnt(0) lgkmcnt(0)
/// global_store_dword v1, v3, s[10:11]
/// s_endpgm
/// ```
pub(super) const PRIVATE_GFX90A: &[u32] = &[
    0x80000900, 0x82018001, 0xC0060282, 0x00000000, 0x24020082, 0x68040085, 0xE0700008, 0x80000200, 0xBF8C0F70,
    0xE0500008, 0x80000300, 0xBF8C0070, 0xDC708000, 0x000A0301, 0xBF810000,
];

/// Stores s0, s2, s6, s8 to s14, MODE and EXEC; the argument's address is in s[4:5].
/// ```text
/// s_load_dwordx2 s[20:21], s[4:5], 0x0
/// s_getreg_b32 s22, hwreg(HW_REG_MODE)
/// s_waitcnt lgkmcnt(0)
/// v_mov_b32_e32 v2, 0
/// v_mov_b32_e32 v3, s0
/// global_store_dword v2, v3, s[20:21]
/// ... and so on, four bytes further each
/// s_endpgm
/// ```
pub(super) const STATE: &[u32] = &[
    0xC0060502, 0x00000000, 0xB896F801, 0xBF8CC07F, 0x7E040280, 0x7E060200, 0xDC708000, 0x00140302, 0x7E060202,
    0xDC708004, 0x00140302, 0x7E060206, 0xDC708008, 0x00140302, 0x7E060208, 0xDC70800C, 0x00140302, 0x7E060209,
    0xDC708010, 0x00140302, 0x7E06020A, 0xDC708014, 0x00140302, 0x7E06020B, 0xDC708018, 0x00140302, 0x7E06020C,
    0xDC70801C, 0x00140302, 0x7E06020D, 0xDC708020, 0x00140302, 0x7E06020E, 0xDC708024, 0x00140302, 0x7E060216,
    0xDC708028, 0x00140302, 0x7E06027E, 0xDC70802C, 0x00140302, 0x7E06027F, 0xDC708030, 0x00140302, 0xBF810000,
];

/// `s_mov_b32 m0, 0x2a`, `s_sendmsg sendmsg(MSG_INTERRUPT)`, `s_endpgm`.
pub(super) const MESSAGE: &[u32] = &[0xBEFC00AA, 0xBF900001, 0xBF810000];

/// `s_trap 3`, `s_trap 2`, `s_endpgm`.
pub(super) const TRAP: &[u32] = &[0xBF920003, 0xBF920002, 0xBF810000];

/// `s_endpgm`
pub(super) const NOTHING: &[u32] = &[0xBF810000];

/// Stores 0x22 behind a breakpoint; argument: out.
/// ```text
/// s_load_dwordx2 s[4:5], s[0:1], 0x0
/// s_waitcnt lgkmcnt(0)
/// s_movk_i32 s6, 0x11
/// s_trap 7
/// s_movk_i32 s6, 0x22
/// v_mov_b32_e32 v1, 0
/// v_mov_b32_e32 v2, s6
/// global_store_dword v1, v2, s[4:5]
/// s_endpgm
/// ```
pub(super) const BREAKPOINT: &[u32] = &[
    0xC0060100, 0x00000000, 0xBF8CC07F, 0xB0060011, 0xBF920007, 0xB0060022, 0x7E020280, 0x7E040206, 0xDC708000,
    0x00040201, 0xBF810000,
];

/// A trap handler that steps over `s_trap`, tells the driver the doorbell and a trap, and halts the wave.
/// ```text
/// s_bfe_u32 ttmp2, ttmp1, 0x80010
/// s_cbranch_scc0 exception
/// s_add_u32 ttmp0, ttmp0, 4
/// s_addc_u32 ttmp1, ttmp1, 0
/// exception:
/// s_mov_b32 ttmp2, exec_lo
/// s_mov_b32 exec_lo, 0x80000000
/// s_sendmsg sendmsg(MSG_GET_DOORBELL)
/// s_and_b32 ttmp3, exec_lo, 0x3ff
/// s_mov_b32 exec_lo, ttmp2
/// s_or_b32 ttmp3, ttmp3, 0x800
/// s_mov_b32 ttmp2, m0
/// s_mov_b32 m0, ttmp3
/// s_nop 0
/// s_sendmsg sendmsg(MSG_INTERRUPT)
/// s_mov_b32 m0, ttmp2
/// s_bitset1_b32 ttmp12, 13
/// s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
/// s_rfe_b64 ttmp[0:1]
/// ```
pub(super) const HANDLER: &[u32] = &[
    0x92EEFF6D, 0x00080010, 0xBF840002, 0x806C846C, 0x826D806D, 0xBEEE007E, 0xBEFE00FF, 0x80000000, 0xBF90000A,
    0x866FFF7E, 0x000003FF, 0xBEFE006E, 0x876FFF6F, 0x00000800, 0xBEEE007C, 0xBEFC006F, 0xBF800000, 0xBF900001,
    0xBEFC006E, 0xBEF81A8D, 0xB978F802, 0xBE801F6C,
];

/// Each workgroup counts itself in a word, then all workgroups wait for each other by global wave sync and the waves of
/// a workgroup by its barrier; then each wave stores the word. Four rounds with a word each; arguments: words, out
/// (8 words for each workgroup of two waves), workgroups less one.
/// ```text
/// s_load_dwordx4 s[4:7], s[0:1], 0x0
/// s_load_dword s8, s[0:1], 0x10
/// v_readfirstlane_b32 s11, v0
/// s_lshr_b32 s12, s11, 2
/// s_lshl_b32 s10, s2, 5
/// s_add_u32 s12, s12, s10
/// s_mov_b64 exec, 1
/// s_mov_b32 m0, 0
/// s_mov_b32 s9, 0
/// v_mov_b32_e32 v5, 1
/// s_waitcnt lgkmcnt(0)
/// v_mov_b32_e32 v2, s8
/// loop:
/// v_mov_b32_e32 v4, s9
/// s_cmp_lg_u32 s11, 0
/// s_cbranch_scc1 meet
/// global_atomic_add v4, v5, s[4:5]
/// s_waitcnt vmcnt(0)
/// ds_gws_barrier v2 gds
/// meet:
/// s_barrier
/// global_load_dword v6, v4, s[4:5]
/// s_add_u32 s10, s12, s9
/// v_mov_b32_e32 v7, s10
/// s_waitcnt vmcnt(0)
/// global_store_dword v7, v6, s[6:7]
/// s_add_u32 s9, s9, 4
/// s_cmp_lg_u32 s9, 16
/// s_cbranch_scc1 loop
/// s_endpgm
/// ```
pub(super) const MEET: &[u32] = &[
    0xC00A0100, 0x00000000, 0xC0020200, 0x00000010, 0x7E160500, 0x8F0C820B, 0x8E0A8502, 0x800C0A0C, 0xBEFE0181,
    0xBEFC0080, 0xBE890080, 0x7E0A0281, 0xBF8CC07F, 0x7E040208, 0x7E080209, 0xBF07800B, 0xBF850005, 0xDD088000,
    0x00040504, 0xBF8C0F70, 0xD93B0000, 0x00000002, 0xBF8A0000, 0xDC508000, 0x06040004, 0x800A090C, 0x7E0E020A,
    0xBF8C0F70, 0xDC708000, 0x00060607, 0x80098409, 0xBF079009, 0xBF85FFED, 0xBF810000,
];

/// Prepares global wave sync for [`MEET`]; same arguments.
/// ```text
/// s_load_dword s8, s[0:1], 0x10
/// s_mov_b32 m0, 0
/// s_waitcnt lgkmcnt(0)
/// v_mov_b32_e32 v2, s8
/// ds_gws_init v2 gds
/// s_endpgm
/// ```
pub(super) const PREPARE: &[u32] =
    &[0xC0020200, 0x00000010, 0xBEFC0080, 0xBF8CC07F, 0x7E040208, 0xD9330000, 0x00000002, 0xBF810000];
