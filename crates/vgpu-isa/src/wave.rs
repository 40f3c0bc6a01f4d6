//! The wave record: every bit of state a wave has between two instructions.
//!
//! Nothing about a wave lives anywhere else, so a wave can be stopped after any instruction, written to a save area,
//! and continued from there.

/// Work items of one wave.
pub const LANES: usize = 64;

/// One vector register: 32 bits for each lane.
pub type Lanes = [u32; LANES];

/// Index of FLAT_SCRATCH (low half) among the scalar registers.
pub const FLAT_SCRATCH: usize = 102;
/// Index of XNACK_MASK (low half) among the scalar registers.
pub const XNACK_MASK: usize = 104;
/// Index of VCC (low half) among the scalar registers.
pub const VCC: usize = 106;
/// Index of the first trap temporary.
pub const TTMP0: usize = 108;
/// Index of M0 among the scalar registers.
pub const M0: usize = 124;
/// Index of EXEC (low half) among the scalar registers.
pub const EXEC: usize = 126;

/// MODE register bits.
pub mod mode {
    /// Rounding of single precision, two bits: nearest even, up, down, toward zero.
    pub const ROUND_32: u32 = 0x3;
    /// Rounding of double and half precision.
    pub const ROUND_64_16: u32 = 0xC;
    /// Denormals of single precision, two bits.
    pub const DENORM_32: u32 = DENORM_32_SOURCES | DENORM_32_RESULTS;
    /// Keeps single precision sources that are denormal; otherwise they are read as zero.
    pub const DENORM_32_SOURCES: u32 = 0x10;
    /// Keeps single precision results that are denormal; otherwise they are flushed to zero.
    pub const DENORM_32_RESULTS: u32 = 0x20;
    /// Denormals of double and half precision.
    pub const DENORM_64_16: u32 = 0xC0;
    /// Clamp turns NaN into zero.
    pub const DX10_CLAMP: u32 = 1 << 8;
    /// Signalling NaNs are quieted by min, max and the like.
    pub const IEEE: u32 = 1 << 9;
    /// The wave enters its trap handler after every instruction.
    pub const DEBUG_EN: u32 = 1 << 11;
    /// Exceptions for which the wave enters its trap handler, nine bits in the order of TRAPSTS.
    pub const EXCP_EN: u32 = 0x1FF << 12;
    /// The wave enters its trap handler before it ends.
    pub const TRAP_ON_END: u32 = 1 << 21;
    /// Overflow of half precision gives the largest finite number instead of infinity.
    pub const FP16_OVFL: u32 = 1 << 23;
    /// Vector register indices are relative to M0.
    pub const GPR_IDX_EN: u32 = 1 << 27;
    /// Vector instructions are skipped.
    pub const VSKIP: u32 = 1 << 28;
    /// Depth of the stack of forked branches, three bits.
    pub const CSP: u32 = 7 << 29;
    /// What compilers set: round to nearest even, keep denormals, DX10 clamp, IEEE.
    pub const USUAL: u32 = 0xF0 | DX10_CLAMP | IEEE;
}

/// STATUS register bits kept outside of dedicated fields.
pub mod status {
    /// Scalar condition code.
    pub const SCC: u32 = 1;
    /// Priority the program gave itself, two bits.
    pub const USER_PRIO: u32 = 3 << 3;
    /// The wave runs in the trap handler.
    pub const PRIV: u32 = 1 << 5;
    /// A trap handler is installed.
    pub const TRAP_EN: u32 = 1 << 6;
    /// EXEC is zero.
    pub const EXECZ: u32 = 1 << 9;
    /// VCC is zero.
    pub const VCCZ: u32 = 1 << 10;
    /// The wave belongs to a workgroup of more than one wave.
    pub const IN_TG: u32 = 1 << 11;
    /// The wave waits at a barrier.
    pub const IN_BARRIER: u32 = 1 << 12;
    /// The wave is halted.
    pub const HALT: u32 = 1 << 13;
    /// The wave exists.
    pub const VALID: u32 = 1 << 16;
    /// Conditional debugging, set by the user.
    pub const COND_DBG_USER: u32 = 1 << 20;
    /// Conditional debugging, set by the system.
    pub const COND_DBG_SYS: u32 = 1 << 21;
    /// Instructions are fetched through the host's page tables.
    pub const INST_ATC: u32 = 1 << 23;
}

/// TRAPSTS register bits.
pub mod trapsts {
    /// An access outside an aperture, or together with [`XNACK_ERROR`] to memory that is not there.
    pub const MEM_VIOL: u32 = 1 << 8;
    /// The wave is to be saved.
    pub const SAVECTX: u32 = 1 << 10;
    /// Bytes that are no instruction.
    pub const ILLEGAL_INST: u32 = 1 << 11;
    /// The host asked for a trap.
    pub const HOST_TRAP: u32 = 1 << 22;
    /// The wave has not executed an instruction.
    pub const WAVE_BEGIN: u32 = 1 << 23;
    /// The wave is about to end.
    pub const WAVE_END: u32 = 1 << 24;
    /// An instruction was executed with MODE.DEBUG_EN set.
    pub const TRAP_AFTER_INST: u32 = 1 << 25;
    /// An access to memory that is not there, or may not be accessed so.
    pub const XNACK_ERROR: u32 = 1 << 28;
    /// Exceptions that no mask holds back: a wave with one of them enters its trap handler before the next
    /// instruction.
    pub const UNMASKED: u32 = MEM_VIOL | ILLEGAL_INST | HOST_TRAP | WAVE_BEGIN | WAVE_END | TRAP_AFTER_INST;
}

/// Reasons why vector operations leave their straight path.
pub mod unusual {
    /// The float mode is not [`super::mode::USUAL`] as far as arithmetic is concerned.
    pub const FLOAT: u32 = 1;
    /// Register indices are relative (`s_set_gpr_idx_on`).
    pub const INDEXED: u32 = 2;
}

/// Private memory of a wave, interleaved by dword as the hardware does: dword `d` of lane `l` is at `(d * 64 + l) * 4`.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// Bytes per lane.
    pub size: u32,
    /// `size * 64` bytes.
    pub memory: Box<[u8]>,
}

/// The whole state of one wave. The fields that every wave uses come first, so that they are adjacent in memory.
#[repr(C, align(64))]
#[derive(Clone, Debug)]
pub struct Wave {
    /// Scalar registers by operand code: SGPR 0-101, FLAT_SCRATCH, XNACK_MASK, VCC, TTMP 108-123, M0 124, EXEC 126.
    pub s: [u32; 128],
    /// Address of the next instruction.
    pub pc: u64,
    /// Scalar condition code.
    pub scc: bool,
    mode: u32,
    unusual: u32,
    /// STATUS bits without SCC, EXECZ and VCCZ, which are derived.
    pub status: u32,
    /// Trap status: exceptions that happened.
    pub trapsts: u32,
    /// HW_ID register: where the wave runs.
    pub hw_id: u32,
    /// XCC the wave runs on.
    pub xcc_id: u32,
    /// Vector registers allocated, architectural ones.
    pub vgprs: u16,
    /// Accumulation registers allocated.
    pub agprs: u16,
    /// Scalar registers allocated.
    pub sgprs: u16,
    /// Bytes of LDS of the workgroup.
    pub lds_size: u32,
    /// Number of the wave in its workgroup.
    pub index: u32,
    /// Private memory.
    pub scratch: Scratch,
    /// An interrupt that is not delivered yet: its payload, and [`INTERRUPT`].
    interrupt: u64,
    /// Number of its queue's doorbell, which trap handlers ask for (MSG_GET_DOORBELL).
    pub doorbell: u32,
    /// Vector registers start with a cache line.
    align: [u32; 9],
    /// Architectural vector registers.
    pub v: [Lanes; 256],
    /// Accumulation registers.
    pub a: [Lanes; 256],
}

const _: () = assert!(std::mem::offset_of!(Wave, v).is_multiple_of(64));

/// Marks an undelivered interrupt in [`Wave`], above the 32 bits of its payload.
const INTERRUPT: u64 = 1 << 32;

impl Wave {
    /// Creates a wave with all registers zero, all lanes on, in the usual float mode.
    pub fn new() -> Box<Self> {
        // SAFETY: every field is an integer, a bool (zero is false) or an array of them, except the box in `scratch`,
        // which is overwritten before anything can look at it.
        let mut wave = unsafe {
            let mut wave = Box::<Self>::new_zeroed();
            let at = &raw mut (*wave.as_mut_ptr()).scratch;
            at.write(Scratch::default());
            wave.assume_init()
        };
        wave.reset();
        wave
    }

    /// Prepares the record for another wave. Registers keep their contents, as on hardware.
    pub fn reset(&mut self) {
        self.pc = 0;
        self.scc = false;
        self.set_mode(mode::USUAL);
        self.status = status::VALID;
        self.trapsts = 0;
        self.set_exec(!0);
        self.scratch.size = 0;
        self.interrupt = 0;
    }

    /// Returns the lanes that are on (EXEC).
    #[inline(always)]
    pub fn exec(&self) -> u64 {
        u64::from(self.s[EXEC]) | u64::from(self.s[EXEC + 1]) << 32
    }

    /// Sets the lanes that are on (EXEC).
    #[inline(always)]
    pub fn set_exec(&mut self, mask: u64) {
        self.set_s64(EXEC, mask);
    }

    /// Returns the vector condition code.
    #[inline(always)]
    pub fn vcc(&self) -> u64 {
        self.s64(VCC)
    }

    /// Returns a pair of scalar registers. The second of the last register is register 127.
    #[inline(always)]
    pub fn s64(&self, index: usize) -> u64 {
        u64::from(self.s[index & 127]) | u64::from(self.s[(index + 1) & 127]) << 32
    }

    /// Writes a pair of scalar registers.
    #[inline(always)]
    pub fn set_s64(&mut self, index: usize, value: u64) {
        self.s[index & 127] = value as u32;
        self.s[(index + 1) & 127] = (value >> 32) as u32;
    }

    /// Returns the MODE register.
    #[inline(always)]
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Writes the MODE register.
    pub fn set_mode(&mut self, value: u32) {
        use mode::{DENORM_32, DENORM_64_16, FP16_OVFL, GPR_IDX_EN, IEEE, ROUND_32, ROUND_64_16, USUAL};
        const ARITHMETIC: u32 = ROUND_32 | ROUND_64_16 | DENORM_32 | DENORM_64_16 | FP16_OVFL | IEEE;
        self.mode = value;
        self.unusual = (u32::from(value & ARITHMETIC != USUAL & ARITHMETIC) * unusual::FLOAT)
            | (u32::from(value & GPR_IDX_EN != 0) * unusual::INDEXED);
    }

    /// Returns why vector operations must leave the straight path: bits of [`unusual`].
    #[inline(always)]
    pub fn unusual(&self) -> u32 {
        self.unusual
    }

    /// Requests an interrupt of the host (s_sendmsg). The wave then yields, so that it can be delivered.
    pub fn interrupt(&mut self, payload: u32) {
        self.interrupt = INTERRUPT | u64::from(payload);
    }

    /// Takes the payload of a requested interrupt; `None` if there is none.
    pub fn take_interrupt(&mut self) -> Option<u32> {
        let pending = std::mem::take(&mut self.interrupt);
        (pending & INTERRUPT != 0).then_some(pending as u32)
    }

    /// Returns whether the wave executes its trap handler.
    #[inline(always)]
    pub fn is_privileged(&self) -> bool {
        self.status & status::PRIV != 0
    }

    /// Returns whether the wave executes no instruction until its STATUS changes. A trap handler runs on.
    #[inline(always)]
    pub fn is_halted(&self) -> bool {
        self.status & (status::HALT | status::PRIV) == status::HALT
    }

    /// Returns whether an exception makes the wave enter its trap handler before the next instruction.
    #[inline(always)]
    pub fn is_trapped(&self) -> bool {
        self.trapsts & trapsts::UNMASKED != 0 && self.status & (status::HALT | status::PRIV) == 0
    }

    /// Returns the STATUS register as a program reads it.
    pub fn status_register(&self) -> u32 {
        let derived = (u32::from(self.scc) * status::SCC)
            | (u32::from(self.exec() == 0) * status::EXECZ)
            | (u32::from(self.vcc() == 0) * status::VCCZ);
        self.status & !(status::SCC | status::EXECZ | status::VCCZ) | derived
    }
}
