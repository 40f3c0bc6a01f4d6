//! 64-bit shifts and moves. Compilers make addresses with them, so the usual ones are done in 32-bit halves.

use crate::inst::{Encoding, Op};
use crate::lanes::{WideLane, wide};
use crate::operand::Type;

operations! {
    OPS: WideLane, u64, wide;
    Vop3 656 "v_lshrrev_b64" Lshrrev64 [B32 B64] B64 |a, b| b >> (a & 63);
    Vop3 657 "v_ashrrev_i64" Ashrrev64 [B32 I64] B64 |a, b| (b as i64 >> (a & 63)) as u64;
}

/// Halves shifted left by at most 31.
#[inline(always)]
fn shifted_left([low, high]: [u32; 2], by: u32) -> [u32; 2] {
    // In two steps, because the whole width is no distance to shift by.
    [low << by, high << by | low >> 1 >> (31 - by)]
}

struct Lshlrev64;

impl WideLane for Lshlrev64 {
    const SOURCES: &'static [Type] = &[Type::B32, Type::B64];
    const RESULT: Type = Type::B64;
    const IN_HALVES: bool = true;
    const DISTANCE: Option<usize> = Some(0);

    #[inline(always)]
    fn lane([a, b, _]: [u64; 3]) -> u64 {
        b << (a & 63)
    }

    #[inline(always)]
    fn halves([[by, _], value, _]: [[u32; 2]; 3]) -> [u32; 2] {
        let [low, high] = shifted_left(value, by & 31);
        if by & 32 != 0 { [0, low] } else { [low, high] }
    }
}

/// The left shift, beside those that go right.
pub(super) static LEFT: &[Op] = &[wide::<Lshlrev64>(Encoding::Vop3, 655, "v_lshlrev_b64")];

/// What MI300 has and MI200 has not.
pub(super) mod mi300 {
    use super::{Encoding, Op, Type, WideLane, shifted_left, wide};
    use crate::inst::GFX942;

    operations! {
        ALL: WideLane, u64, wide;
        Vop1 56 "v_mov_b64" Mov64 [B64] B64 |a| a;
    }

    /// Shifts by at most seven and adds.
    struct LshlAdd64;

    impl WideLane for LshlAdd64 {
        const SOURCES: &'static [Type] = &[Type::B64, Type::B32, Type::B64];
        const RESULT: Type = Type::B64;
        const IN_HALVES: bool = true;
        const DISTANCE: Option<usize> = Some(1);

        #[inline(always)]
        fn lane([a, b, c]: [u64; 3]) -> u64 {
            (a << (b & 7)).wrapping_add(c)
        }

        #[inline(always)]
        fn halves([a, [b, _], c]: [[u32; 2]; 3]) -> [u32; 2] {
            let [low, high] = shifted_left(a, b & 7);
            let sum = low.wrapping_add(c[0]);
            [sum, high.wrapping_add(c[1]).wrapping_add(u32::from(sum < low))]
        }
    }

    pub(in super::super) static OPS: [Op; 2] =
        [ALL[0].on(GFX942), wide::<LshlAdd64>(Encoding::Vop3, 520, "v_lshl_add_u64").on(GFX942)];
}
