//! How the operations of this family are written down.

/// An operation with 32-bit (or narrower) sources and result: name, sources, result, the function of one lane in the
/// usual mode, and the function of one lane and MODE where rounding or overflow depend on it.
macro_rules! lane {
    ($name:ident: $($source:ident),+ => $result:ident, $lane:expr $(, in_mode $in_mode:expr)? $(; $flag:ident)*) => {
        struct $name;

        impl crate::lanes::Lane for $name {
            const SOURCES: &'static [crate::operand::Type] = &[$(crate::operand::Type::$source),+];
            const RESULT: crate::operand::Type = crate::operand::Type::$result;
            $(const $flag: bool = true;)*

            #[inline(always)]
            fn lane(source: [u32; 3]) -> u32 {
                $lane(source)
            }

            $(#[inline(always)]
            fn lane_in_mode(source: [u32; 3], mode: u32) -> u32 {
                $in_mode(source, mode)
            })?
        }
    };
}

/// The same with 64-bit sources or result.
macro_rules! wide {
    ($name:ident: $($source:ident),+ => $result:ident, $lane:expr $(, in_mode $in_mode:expr)? $(; $flag:ident)*) => {
        struct $name;

        impl crate::lanes::WideLane for $name {
            const SOURCES: &'static [crate::operand::Type] = &[$(crate::operand::Type::$source),+];
            const RESULT: crate::operand::Type = crate::operand::Type::$result;
            $(const $flag: bool = true;)*

            #[inline(always)]
            fn lane(source: [u64; 3]) -> u64 {
                $lane(source)
            }

            $(#[inline(always)]
            fn lane_in_mode(source: [u64; 3], mode: u32) -> u64 {
                $in_mode(source, mode)
            })?
        }
    };
}

pub(super) use {lane, wide};
