//! Moves, and operations that do nothing.

use crate::inst::{Encoding, Env, Flow, Inst, Op};
use crate::lanes::{Lane, lane};
use crate::operand::{Type, write_masked};
use crate::wave::Wave;

/// The shader engines, one bit each, that a rectangle touches. Its corners come as {x_min, y_min, x_max, y_max}, two
/// bits each, in tiles of 32 pixels modulo four; tile (x, y) belongs to engine {x0 ^ y1, y0 ^ x1}.
const fn engines(select: u32) -> u8 {
    let (left, top) = (select >> 6 & 3, select >> 4 & 3);
    let (right, bottom) = (select >> 2 & 3, select & 3);
    let (width, height) = (right.wrapping_sub(left) & 3, bottom.wrapping_sub(top) & 3);
    let mut mask = 0;
    let mut n = 0;
    while n <= width {
        let mut m = 0;
        while m <= height {
            let (x, y) = (left + n, top + m);
            let engine = ((x ^ y >> 1) & 1) << 1 | (y ^ x >> 1) & 1;
            mask |= 1 << engine;
            m += 1;
        }
        n += 1;
    }
    mask
}

const ENGINES: [u8; 256] = {
    let mut table = [0; 256];
    let mut select = 0;
    while select < 256 {
        table[select] = engines(select as u32);
        select += 1;
    }
    table
};

operations! {
    LANES: Lane, u32, lane;
    Vop1 1 "v_mov_b32" Mov [B32] B32 |a| a;
    Vop1 55 "v_screen_partition_4se_b32" ScreenPartition [B32] B32 |a| u32::from(ENGINES[(a & 0xFF) as usize]);
}

fn swap(wave: &mut Wave, inst: &Inst, _env: &mut Env<'_>) -> Flow {
    let (to, from) = (usize::from(inst.dst & 0xFF), usize::from(inst.src[0] & 0xFF));
    let exec = wave.exec();
    let (first, second) = (wave.v[to], wave.v[from]);
    write_masked(&mut wave.v[to], &second, exec);
    write_masked(&mut wave.v[from], &first, exec);
    Flow::Next
}

/// Nothing. Clearing the exceptions of the vector unit is nothing too: the unit keeps none between instructions.
fn nothing(_wave: &mut Wave, _inst: &Inst, _env: &mut Env<'_>) -> Flow {
    Flow::Next
}

pub(super) static OPS: &[Op] = &[
    LANES[0],
    LANES[1],
    Op::new(Encoding::Vop1, 0, "v_nop", nothing),
    Op::new(Encoding::Vop1, 53, "v_clrexcp", nothing),
    Op::new(Encoding::Vop1, 81, "v_swap_b32", swap),
];
