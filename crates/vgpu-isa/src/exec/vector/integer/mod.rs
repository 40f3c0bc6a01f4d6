//! Vector operations on integers and bits, moves between lanes and registers, and all comparisons.

use crate::inst::Op;

/// Operations that are functions of one lane: a line each, with encoding, opcode, mnemonic, a name, types of the
/// sources and of the result (`KEEPS_HIGH` for those that write one half of the register only), what it computes, and
/// what clamping makes of it if it knows saturation.
macro_rules! operations {
    ($table:ident: $trait:ident, $word:ty, $make:ident;
     $($encoding:ident $opcode:literal $name:literal $op:ident [$($source:ident)+] $result:ident $($keeps:ident)?
       |$($arg:ident),+| $body:expr $(=> clamp |$($clamped_arg:ident),+| $clamped:expr)?;)+) => {
        $(struct $op;

        impl $trait for $op {
            const SOURCES: &'static [Type] = &[$(Type::$source),+];
            const RESULT: Type = Type::$result;
            $(const $keeps: bool = true;)?

            #[inline(always)]
            fn lane(source: [$word; 3]) -> $word {
                let [$($arg,)+ ..] = source;
                $body
            }

            $(#[inline(always)]
            fn clamped(source: [$word; 3]) -> $word {
                let [$($clamped_arg,)+ ..] = source;
                $clamped
            })?
        })+

        pub(super) const $table: &[Op] = &[$($make::<$op>(Encoding::$encoding, $opcode, $name)),+];
    };
}

mod arithmetic;
mod bits;
mod bytes;
mod carry;
mod compare;
mod cross;
mod moves;
mod short;
mod wide;

pub(crate) fn families() -> Vec<&'static [Op]> {
    let mut families = vec![
        arithmetic::OPS,
        bits::OPS,
        bytes::OPS,
        bytes::PACKED,
        &bytes::QUADS,
        carry::OPS,
        cross::OPS,
        moves::OPS,
        short::OPS,
        wide::OPS,
        wide::LEFT,
        &wide::mi300::OPS,
    ];
    families.extend(compare::families());
    families
}
