//! Trap handlers: the device is the first level, and executes the runtime's handler as the second.
//!
//! Sources: the first level is what `cwsr_trap_handler_gfx9.asm` of Linux 6.12 does between its entry and the jump to
//! the second level (`L_FETCH_2ND_TRAP`); its comments and those of `trap_handler.s` of ROCR-Runtime describe the
//! registers between the two. The driver's handler cannot be interrupted, and so cannot be saved: here the second level
//! runs to its end before the workgroup is put back.

use vgpu_isa::code::Code;
use vgpu_isa::inst::{Env, Stop, Target};
use vgpu_isa::run::{RunEnd, run};
use vgpu_isa::wave::{TTMP0, Wave, mode, status, trapsts};

use super::queue::HardwareQueue;
use crate::driver::WaveControl;

/// Most instructions of a trap handler. That of ROCr has some hundreds.
const MOST_INSTRUCTIONS: u64 = 1 << 16;

/// Bits of the saved program counter's upper half that are address.
const PC_HI: u32 = 0xFFFF;
/// Position of the number of `s_trap` above it.
const TRAP_ID_SHIFT: u32 = 16;
/// Bits of STATUS that the first level does not pass on: SPI_PRIO and ECC_ERR.
const STATUS_HIDDEN: u32 = 0x6 | 1 << 17;
/// Bits of the trap temporary in which the first level keeps IB_STS (nothing is in flight here) and tells the second
/// whether a debugger is attached.
const IB_STS_KEPT: u32 = 0xFC00_0000;
const DEBUG_ENABLED: u32 = 1 << 23;

/// The second-level trap handler of a process on a gpu (`SET_TRAP_HANDLER`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapHandler {
    /// Address of its code (TBA).
    pub code: u64,
    /// Address of its memory (TMA).
    pub memory: u64,
}

/// Circumstances in which waves of a queue trap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrapSetup {
    pub(crate) handler: Option<TrapHandler>,
    /// Whether a debugger is attached.
    pub(crate) is_debugged: bool,
    /// Number of the queue's doorbell.
    pub(crate) doorbell: u32,
}

impl TrapSetup {
    pub(super) fn new(handler: Option<TrapHandler>, control: &WaveControl, queue: Option<&HardwareQueue>) -> Self {
        let doorbell = queue.and_then(|queue| queue.spec.doorbell).map_or(0, |doorbell| doorbell.number());
        Self { handler, is_debugged: control.is_debugged, doorbell }
    }
}

/// An interrupt that a wave requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaveMessage {
    /// Content of M0.
    pub(crate) payload: u32,
    /// Whether a trap handler requested it.
    pub(crate) is_privileged: bool,
}

impl WaveMessage {
    /// Takes the interrupt that a wave has requested, if any.
    pub(super) fn take(wave: &mut Wave) -> Option<Self> {
        let is_privileged = wave.is_privileged();
        wave.take_interrupt().map(|payload| Self { payload, is_privileged })
    }
}

/// Why a trap handler did not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HandlerFailure {
    /// The handler itself cannot continue.
    Stopped(Stop),
    /// It has ended its wave.
    Ended,
    /// It takes too long.
    Endless,
}

/// Records in TRAPSTS why a wave stopped. Returns the number of `s_trap`, or 0 for an exception.
pub(super) fn record(wave: &mut Wave, stop: &Stop) -> u8 {
    wave.trapsts |= match stop {
        Stop::Memory(_) => trapsts::MEM_VIOL | trapsts::XNACK_ERROR,
        Stop::Lds { .. } | Stop::Scratch { .. } | Stop::Address(_) | Stop::Gws(_) => trapsts::MEM_VIOL,
        Stop::Illegal { .. } => trapsts::ILLEGAL_INST,
        Stop::Exception(bits) => *bits,
        Stop::Trap(_) => 0,
    };
    if let Stop::Trap(id) = stop { *id } else { 0 }
}

/// Has a wave enter the handler of its process, and executes it until it returns.
pub(super) fn execute(
    wave: &mut Wave,
    trap_id: u8,
    handler: TrapHandler,
    setup: &TrapSetup,
    code: &mut Code,
    env: &mut Env<'_>,
    messages: &mut Vec<WaveMessage>,
) -> Result<(), HandlerFailure> {
    enter(wave, trap_id, handler, setup, code.target());
    let mut budget = MOST_INSTRUCTIONS;
    while wave.is_privileged() {
        match run(wave, code, env, &mut budget) {
            RunEnd::Sleep => messages.extend(WaveMessage::take(wave)),
            RunEnd::Stopped(stop) => return Err(HandlerFailure::Stopped(stop)),
            RunEnd::End => return Err(HandlerFailure::Ended),
            // No wave waits for others in its handler, and none enters it twice.
            RunEnd::Budget | RunEnd::Barrier | RunEnd::Exception => return Err(HandlerFailure::Endless),
        }
    }
    Ok(())
}

/// Does what the hardware and the first level do before the second level's first instruction.
fn enter(wave: &mut Wave, trap_id: u8, handler: TrapHandler, setup: &TrapSetup, target: Target) {
    wave.doorbell = setup.doorbell;
    let before = wave.status_register();
    wave.status |= status::PRIV;
    let pc_hi = (wave.pc >> 32) as u32 & PC_HI;
    let debug_word = if target == Target::Gfx942 { 13 } else { 11 };
    let ttmp = &mut wave.s[TTMP0..];
    ttmp[0] = wave.pc as u32;
    ttmp[1] = pc_hi | u32::from(trap_id) << TRAP_ID_SHIFT;
    ttmp[2] = handler.code as u32;
    ttmp[3] = (handler.code >> 32) as u32;
    ttmp[12] = (before | status::PRIV) & !STATUS_HIDDEN;
    ttmp[14] = handler.memory as u32;
    ttmp[15] = (handler.memory >> 32) as u32;
    let debug = if setup.is_debugged { DEBUG_ENABLED } else { 0 };
    ttmp[debug_word] = ttmp[debug_word] & !(IB_STS_KEPT | DEBUG_ENABLED) | debug;
    wave.pc = handler.code;
}

/// Starts a wave as its debugger wants it (SPI_GDBG_PER_VMID_CNTL).
pub(super) fn launch(wave: &mut Wave, control: &WaveControl) {
    if !control.is_debugged {
        return;
    }
    let mut new_mode = wave.mode();
    if control.replaces_traps {
        new_mode &= !mode::EXCP_EN;
    }
    new_mode |= control.exceptions() << mode::EXCP_EN.trailing_zeros();
    if control.traps_at_end() {
        new_mode |= mode::TRAP_ON_END;
    }
    if control.starts_stepping() {
        new_mode |= mode::DEBUG_EN;
    }
    wave.set_mode(new_mode);
    if control.starts_halted() {
        wave.status |= status::HALT;
    }
    if control.traps_at_start() {
        wave.trapsts |= trapsts::WAVE_BEGIN;
    }
}
