//! What a wave tells the hardware: end, barrier, sleep, halt, traps, messages.

use super::{ops, simm16, sources};
use crate::inst::{Flow, Op, Stop};
use crate::wave::{EXEC, M0, mode, status};

pub(super) static OPS: &[Op] = ops!(Sopp:
    0 "s_nop" |_, _, _| Flow::Next;
    1 "s_endpgm" |_, _, _| Flow::End;
    // Waves that sleep run again soon anyway.
    3 "s_wakeup" |_, _, _| Flow::Next;
    10 "s_barrier" |_, _, _| Flow::Barrier;
    11 "s_setkill" |_, inst, _| if simm16(inst) & 1 != 0 { Flow::End } else { Flow::Next };
    // Every memory operation is complete when the next instruction starts.
    12 "s_waitcnt" |_, _, _| Flow::Next;
    13 "s_sethalt" |wave, inst, _| {
        if simm16(inst) & 1 == 0 {
            wave.status &= !status::HALT;
            return Flow::Next;
        }
        wave.status |= status::HALT;
        // A trap handler runs on; the wave halts when it returns.
        if wave.status & status::PRIV == 0 { Flow::Sleep } else { Flow::Next }
    };
    14 "s_sleep" |_, inst, _| if simm16(inst) & 0x7F != 0 { Flow::Sleep } else { Flow::Next };
    15 "s_setprio" |wave, inst, _| {
        let priority = (simm16(inst) as u32 & 3) << status::USER_PRIO.trailing_zeros();
        wave.status = wave.status & !status::USER_PRIO | priority;
        Flow::Next
    };
    16 "s_sendmsg" |wave, inst, _| {
        match simm16(inst) & 0xF {
            INTERRUPT => {
                wave.interrupt(wave.s[M0]);
                return Flow::Sleep;
            }
            // The answer arrives before the next instruction. Its bit 31 is clear, for which handlers wait.
            GET_DOORBELL => wave.s[EXEC] = wave.doorbell & 0x7FFF_FFFF,
            _ => {}
        }
        Flow::Next
    };
    17 "s_sendmsghalt" |wave, inst, _| {
        if simm16(inst) & 0xF == INTERRUPT {
            wave.interrupt(wave.s[M0]);
        }
        wave.status |= status::HALT;
        Flow::Sleep
    };
    18 "s_trap" |_, inst, env| env.stopped(Stop::Trap(inst.words[0] as u8));
    19 "s_icache_inv" |_, _, _| Flow::Invalidate;
    20 "s_incperflevel" |_, _, _| Flow::Next;
    21 "s_decperflevel" |_, _, _| Flow::Next;
    22 "s_ttracedata" |_, _, _| Flow::Next;
    27 "s_endpgm_saved" |_, _, _| Flow::End;
    30 "s_endpgm_ordered_ps_done" |_, _, _| Flow::End;
);

/// The message that interrupts the host, with M0 as payload; the others talk to units a compute device has no use for.
const INTERRUPT: i16 = 1;
/// The message that asks for the number of the queue's doorbell, which arrives in EXEC.
const GET_DOORBELL: i16 = 10;

pub(super) static SKIP: &[Op] = ops!(Sopc:
    16 "s_setvskip" |wave, inst, _| {
        let (bits, bit): (u32, u32) = sources(wave, inst);
        let skip = bits.wrapping_shr(bit) & 1 != 0;
        wave.set_mode(wave.mode() & !mode::VSKIP | if skip { mode::VSKIP } else { 0 });
        // A jump begins a new run of instructions, which reads the mode again.
        Flow::Jump
    };
);
