//! 64-bit shifts.

use crate::inst::{Encoding, Op};
use crate::lanes::{WideLane, wide};
use crate::operand::Type;

operations! {
    OPS: WideLane, u64, wide;
    Vop3 655 "v_lshlrev_b64" Lshlrev64 [B32 B64] B64 |a, b| b << (a & 63);
    Vop3 656 "v_lshrrev_b64" Lshrrev64 [B32 B64] B64 |a, b| b >> (a & 63);
    Vop3 657 "v_ashrrev_i64" Ashrrev64 [B32 I64] B64 |a, b| (b as i64 >> (a & 63)) as u64;
}

/// What MI300 has and MI200 has not.
pub(super) mod mi300 {
    use super::{Encoding, Op, Type, WideLane, wide};
    use crate::inst::GFX942;

    operations! {
        ALL: WideLane, u64, wide;
        Vop1 56 "v_mov_b64" Mov64 [B64] B64 |a| a;
        Vop3 520 "v_lshl_add_u64" LshlAdd64 [B64 B32 B64] B64 |a, b, c| (a << (b & 7)).wrapping_add(c);
    }

    pub(in super::super) static OPS: [Op; 2] = [ALL[0].on(GFX942), ALL[1].on(GFX942)];
}
