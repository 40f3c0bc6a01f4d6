//! Decoded instructions and the operations they name.

use crate::memory::{Fault, Port};
use crate::wave::Wave;

/// Instruction formats, by the name the manuals use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the variants are the names of the ISA manual")]
pub enum Encoding {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vop3,
    Vop3p,
    Vopc,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
    Mtbuf,
    Mimg,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 18] = [
        Self::Sop1,
        Self::Sop2,
        Self::Sopc,
        Self::Sopk,
        Self::Sopp,
        Self::Smem,
        Self::Vop1,
        Self::Vop2,
        Self::Vop3,
        Self::Vop3p,
        Self::Vopc,
        Self::Ds,
        Self::Flat,
        Self::Global,
        Self::Scratch,
        Self::Mubuf,
        Self::Mtbuf,
        Self::Mimg,
    ];

    /// Returns the name in capital letters.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 18] = [
            "SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMEM", "VOP1", "VOP2", "VOP3", "VOP3P", "VOPC", "DS", "FLAT",
            "GLOBAL", "SCRATCH", "MUBUF", "MTBUF", "MIMG",
        ];
        NAMES[self as usize]
    }
}

/// Instruction set of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// MI200.
    Gfx90a,
    /// MI300.
    Gfx942,
}

impl Target {
    /// All instruction sets.
    pub const ALL: [Self; 2] = [Self::Gfx90a, Self::Gfx942];

    /// Returns the name that compilers use (`gfx942`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Gfx90a => "gfx90a",
            Self::Gfx942 => "gfx942",
        }
    }
}

/// What happens after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    /// The next instruction follows.
    Next,
    /// The instruction wrote the program counter.
    Jump,
    /// The wave ended.
    End,
    /// The wave waits for the others of its workgroup.
    Barrier,
    /// The wave gives way (s_sleep and the like).
    Sleep,
    /// Decoded code may be out of date (s_icache_inv).
    Invalidate,
    /// The wave stopped; [`Env::stop`] says why.
    Stop,
}

/// Why a wave cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A memory access failed.
    Memory(Fault),
    /// Atomic on LDS that is not aligned.
    Lds {
        /// Byte offset in LDS.
        offset: u64,
    },
    /// Private memory access beyond the allocation.
    Scratch {
        /// Byte offset in the lane's private memory.
        offset: u64,
    },
    /// Bytes that are no instruction, or one that is not implemented.
    Illegal {
        /// The mnemonic, if the encoding has one.
        mnemonic: Option<&'static str>,
        /// First two dwords of the encoding.
        words: [u32; 2],
    },
    /// s_trap.
    Trap(u8),
    /// A store to an aperture that does not exist, or another broken address.
    Address(u64),
    /// An enabled arithmetic exception (bits of TRAPSTS).
    Exception(u32),
    /// A global wave sync instruction. The device answers it; the wave then continues after the instruction, or it
    /// stays at the instruction and waits.
    Gws(GwsRequest),
}

/// A global wave sync instruction, by the names of the manuals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GwsOperation {
    /// Sets the counter.
    Init,
    /// Waits until as many waves have arrived as the counter says, plus one.
    Barrier,
    /// Adds one to the counter.
    SemaV,
    /// Adds the value to the counter.
    SemaBr,
    /// Waits until the counter is above zero and subtracts one.
    SemaP,
    /// Lets all waves go on that wait in `SemaP`.
    SemaReleaseAll,
}

impl GwsOperation {
    /// Returns whether the instruction has a value in a vector register.
    pub fn has_value(self) -> bool {
        matches!(self, Self::Init | Self::Barrier | Self::SemaBr)
    }
}

/// What a wave asks of global wave sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GwsRequest {
    /// The instruction.
    pub operation: GwsOperation,
    /// The resource, below 64, counted from the first of the process.
    pub resource: u8,
    /// The value; 0 if the instruction has none.
    pub value: u32,
}

/// The environment of a wave while it runs: memory, LDS, clock.
pub struct Env<'a> {
    /// GPU memory.
    pub memory: Port<'a>,
    /// LDS of the workgroup, exactly as large as allocated.
    pub lds: &'a mut [u8],
    /// Fixed 100 MHz counter (s_memrealtime), read when asked.
    pub clock: fn() -> u64,
    /// Why the wave stopped, set with [`Flow::Stop`].
    pub stop: Option<Stop>,
}

impl Env<'_> {
    /// Stops the wave.
    #[cold]
    pub fn stopped(&mut self, why: Stop) -> Flow {
        self.stop = Some(why);
        Flow::Stop
    }
}

/// Executes one instruction.
///
/// # Safety
/// Handlers compiled for wide vectors may only run on a CPU that has them: the table hands out the right one.
pub type Handler = unsafe fn(&mut Wave, &Inst, &mut Env<'_>) -> Flow;

/// An operation: one opcode of one encoding.
#[derive(Clone, Copy)]
pub struct Op {
    /// Encoding it belongs to.
    pub encoding: Encoding,
    /// Number in that encoding.
    pub opcode: u16,
    /// Mnemonic without suffix (`v_add_u32`).
    pub name: &'static str,
    /// Devices that have it.
    pub targets: &'static [Target],
    /// Handler for any CPU.
    pub portable: Handler,
    /// Handler for CPUs with AVX2, FMA and F16C.
    pub wide: Handler,
    /// The same two for instructions with modifiers, where they are others.
    pub modified: Option<[Handler; 2]>,
}

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} {})", self.name, self.encoding.name(), self.opcode)
    }
}

/// Devices that have almost everything.
pub const BOTH: &[Target] = &[Target::Gfx90a, Target::Gfx942];
/// MI300 only.
pub const GFX942: &[Target] = &[Target::Gfx942];
/// MI200 only.
pub const GFX90A: &[Target] = &[Target::Gfx90a];

impl Op {
    /// An operation with one handler for all CPUs.
    pub const fn new(encoding: Encoding, opcode: u16, name: &'static str, handler: Handler) -> Self {
        Self { encoding, opcode, name, targets: BOTH, portable: handler, wide: handler, modified: None }
    }

    /// The same operation on fewer devices.
    pub const fn on(self, targets: &'static [Target]) -> Self {
        Self { targets, ..self }
    }
}

/// Second dword of VOP1, VOP2 and VOPC that reroutes lanes or selects parts of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// None.
    Plain,
    /// Data-parallel primitives: lanes take values of other lanes.
    Dpp,
    /// Sub-dword addressing.
    Sdwa,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub struct Inst {
    /// Handler that executes it.
    pub handler: Handler,
    /// The operation.
    pub op: &'static Op,
    /// The first two dwords as they stand in memory (the second is zero for short ones).
    pub words: [u32; 2],
    /// The literal constant, or the DPP/SDWA dword.
    pub literal: u32,
    /// Destination: scalar register 0-127 (scalar formats), vector register 0-255 (vector formats).
    pub dst: u16,
    /// Scalar destination of VOP3B and VOPC.
    pub sdst: u16,
    /// Sources by operand code: 0-127 scalar registers, 128-254 constants, 255 literal, 256-511 vector registers,
    /// 512-767 accumulation registers.
    pub src: [u16; 3],
    /// Absolute value, one bit for each source.
    pub abs: u8,
    /// Negation, one bit for each source (VOP3P: of the low half).
    pub neg: u8,
    /// VOP3: op_sel (bit 3 is the destination). VOP3P: op_sel of the low half.
    pub op_sel: u8,
    /// VOP3P: op_sel_hi, one bit for each source.
    pub op_sel_hi: u8,
    /// VOP3P: neg_hi, one bit for each source.
    pub neg_hi: u8,
    /// Output modifier: 0 none, 1 times two, 2 times four, 3 half.
    pub omod: u8,
    /// Clamp the result.
    pub clamp: bool,
    /// DPP or SDWA.
    pub form: Form,
    /// No modifier of any kind: the straight path applies.
    pub plain: bool,
    /// No modifier but the signs of float sources: the straight path of most operations applies them.
    pub signed: bool,
    /// Length in bytes.
    pub size: u8,
}
