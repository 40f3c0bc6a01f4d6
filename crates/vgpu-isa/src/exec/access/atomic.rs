//! What atomics do to a word of memory.

use std::marker::PhantomData;

use super::float;
use super::lanes::Active;
use super::{Memory, private};
use crate::inst::Stop;
use crate::wave::{LANES, Lanes, Scratch};

/// 32 or 64 bits of memory.
pub(crate) trait Word: Copy + Default + 'static {
    /// Registers for one.
    const REGISTERS: usize;

    /// A word from registers.
    fn join(low: u32, high: u32) -> Self;

    /// Registers from a word.
    fn split(self) -> [u32; 2];

    /// Replaces a word of memory by a function of it.
    fn change<M: Memory>(memory: &mut M, address: u64, change: impl FnMut(Self) -> Self) -> Result<Self, Stop>;
}

impl Word for u32 {
    const REGISTERS: usize = 1;

    #[inline(always)]
    fn join(low: u32, _high: u32) -> Self {
        low
    }

    #[inline(always)]
    fn split(self) -> [u32; 2] {
        [self, 0]
    }

    #[inline(always)]
    fn change<M: Memory>(memory: &mut M, address: u64, change: impl FnMut(Self) -> Self) -> Result<Self, Stop> {
        memory.change_u32(address, change)
    }
}

impl Word for u64 {
    const REGISTERS: usize = 2;

    #[inline(always)]
    fn join(low: u32, high: u32) -> Self {
        u64::from(low) | u64::from(high) << 32
    }

    #[inline(always)]
    fn split(self) -> [u32; 2] {
        [self as u32, (self >> 32) as u32]
    }

    #[inline(always)]
    fn change<M: Memory>(memory: &mut M, address: u64, change: impl FnMut(Self) -> Self) -> Result<Self, Stop> {
        memory.change_u64(address, change)
    }
}

/// An operation on a word of memory with one or two operands.
pub(crate) trait Atomic: 'static {
    /// What it works on.
    type Word: Word;
    /// Operands beside the word.
    const OPERANDS: usize = 1;
    /// Low bits of addresses are ignored.
    const ALIGNS: bool = false;

    /// The new word. `b` is the second operand; `mode` the value of MODE that applies.
    fn apply(old: Self::Word, a: Self::Word, b: Self::Word, mode: u32) -> Self::Word;
}

macro_rules! integers {
    ($($(#[$doc:meta])* $name:ident $operands:literal |$old:ident, $a:ident, $b:ident| $new:expr;)*) => {
        $($(#[$doc])*
        pub(crate) struct $name<W>(PhantomData<W>);
        integers!(impl $name $operands u32 i32 |$old, $a, $b| $new);
        integers!(impl $name $operands u64 i64 |$old, $a, $b| $new);)*
    };
    (impl $name:ident $operands:literal $word:ident $signed:ident |$old:ident, $a:ident, $b:ident| $new:expr) => {
        impl Atomic for $name<$word> {
            type Word = $word;
            const OPERANDS: usize = $operands;

            #[inline(always)]
            fn apply($old: $word, $a: $word, $b: $word, _mode: u32) -> $word {
                #[allow(dead_code, reason = "only the signed operations use it")]
                type Signed = $signed;
                $new
            }
        }
    };
}

integers! {
    /// Exchange.
    Swap 1 |_old, a, _b| a;
    /// Sum.
    Add 1 |old, a, _b| old.wrapping_add(a);
    /// Memory minus operand.
    Sub 1 |old, a, _b| old.wrapping_sub(a);
    /// Operand minus memory.
    Rsub 1 |old, a, _b| a.wrapping_sub(old);
    /// Count up, to zero after the operand.
    Inc 1 |old, a, _b| if old >= a { 0 } else { old + 1 };
    /// Count down, to the operand after zero.
    Dec 1 |old, a, _b| if old == 0 || old > a { a } else { old - 1 };
    /// Smaller, signed.
    Smin 1 |old, a, _b| if (a as Signed) < (old as Signed) { a } else { old };
    /// Larger, signed.
    Smax 1 |old, a, _b| if (a as Signed) >= (old as Signed) { a } else { old };
    /// Smaller, unsigned.
    Umin 1 |old, a, _b| old.min(a);
    /// Larger, unsigned.
    Umax 1 |old, a, _b| old.max(a);
    /// Bits in both.
    And 1 |old, a, _b| old & a;
    /// Bits in either.
    Or 1 |old, a, _b| old | a;
    /// Bits in one.
    Xor 1 |old, a, _b| old ^ a;
    /// Exchange with the first operand if memory holds the second (FLAT and MUBUF).
    SwapIfSecond 2 |old, a, b| if old == b { a } else { old };
    /// Exchange with the second operand if memory holds the first (DS).
    SwapIfFirst 2 |old, a, b| if old == a { b } else { old };
    /// Clear the bits of the first operand, set those of the second.
    MaskOr 2 |old, a, b| old & !a | b;
    /// Take the first operand away if it is there, else add the second.
    Wrap 2 |old, a, b| if old >= a { old - a } else { old.wrapping_add(b) };
}

macro_rules! floats {
    ($($(#[$doc:meta])* $name:ident $operands:literal $word:ident |$old:ident, $a:ident, $b:ident, $mode:ident| $new:expr;)*) => {
        $($(#[$doc])*
        pub(crate) struct $name;

        impl Atomic for $name {
            type Word = $word;
            const OPERANDS: usize = $operands;

            #[inline]
            fn apply($old: $word, $a: $word, $b: $word, $mode: u32) -> $word {
                $new
            }
        })*
    };
}

floats! {
    /// Sum in single precision.
    AddF32 1 u32 |old, a, _b, mode| float::add_32(old, a, mode);
    /// Sum in double precision.
    AddF64 1 u64 |old, a, _b, _mode| float::add_64(old, a);
    /// Two sums in half precision.
    AddF16 1 u32 |old, a, _b, mode| float::add_2x16(old, a, mode);
    /// Two sums in brain float.
    AddBf16 1 u32 |old, a, _b, _mode| float::add_2xb16(old, a);
    /// Smaller in single precision.
    MinF32 1 u32 |old, a, _b, mode| float::choose_32(old, a, mode, f32::lt);
    /// Larger in single precision.
    MaxF32 1 u32 |old, a, _b, mode| float::choose_32(old, a, mode, f32::gt);
    /// Smaller in double precision.
    MinF64 1 u64 |old, a, _b, mode| float::choose_64(old, a, mode, f64::lt);
    /// Larger in double precision.
    MaxF64 1 u64 |old, a, _b, mode| float::choose_64(old, a, mode, f64::gt);
    /// Exchange if memory equals the first operand as a number.
    SwapIfF32 2 u32 |old, a, b, _mode| if f32::from_bits(old) == f32::from_bits(a) { b } else { old };
    /// Exchange if memory equals the first operand as a number of double precision.
    SwapIfF64 2 u64 |old, a, b, _mode| if f64::from_bits(old) == f64::from_bits(a) { b } else { old };
}

/// Both halves are exchanged on their own, each if the highest bit of its operand is set, which is not stored.
pub(crate) struct CondSwap;

impl Atomic for CondSwap {
    type Word = u64;
    const ALIGNS: bool = true;

    #[inline]
    fn apply(old: u64, a: u64, _b: u64, _mode: u32) -> u64 {
        let half = |old: u32, a: u32| if a >> 31 != 0 { a & 0x7FFF_FFFF } else { old };
        u64::join(half(old as u32, a as u32), half((old >> 32) as u32, (a >> 32) as u32))
    }
}

/// Operands and results of an atomic: registers of the operands in, registers of the words before out.
pub(crate) struct Data {
    /// First operand: low and high half.
    pub(crate) a: [Lanes; 2],
    /// Second operand.
    pub(crate) b: [Lanes; 2],
    /// What memory held.
    pub(crate) old: [Lanes; 2],
}

impl Data {
    /// Operands of `A` from registers: the first from `a` on, the second from `b` on.
    #[inline(always)]
    pub(crate) fn new<A: Atomic>(file: &[Lanes; 256], a: u32, b: u32) -> Self {
        let mut data = Self { a: [[0; LANES]; 2], b: [[0; LANES]; 2], old: [[0; LANES]; 2] };
        for k in 0..A::Word::REGISTERS {
            data.a[k] = file[(a as usize + k) & 0xFF];
            if A::OPERANDS == 2 {
                data.b[k] = file[(b as usize + k) & 0xFF];
            }
        }
        data
    }

    #[inline(always)]
    fn change<A: Atomic>(&self, lane: usize, old: A::Word, mode: u32) -> A::Word {
        let join = |from: &[Lanes; 2]| A::Word::join(from[0][lane], from[1][lane]);
        A::apply(old, join(&self.a), join(&self.b), mode)
    }

    /// Changes the words of the lanes that are on, in their order. Lanes that follow each other and whose words lie in
    /// the same aligned eight bytes change them together where a change of memory is expensive.
    #[inline(always)]
    pub(crate) fn run<A: Atomic, M: Memory>(
        &mut self,
        memory: &mut M,
        base: u64,
        offsets: &Lanes,
        exec: u64,
        mode: u32,
    ) -> Result<(), Stop> {
        let aligned = if A::ALIGNS { !7 } else { !0 };
        let address = |lane: usize| M::address(base, offsets[lane]) & aligned;
        if !(M::IS_EXPENSIVE && may_share(base, offsets, exec)) {
            return self.run_each::<A, M>(memory, exec, address, mode);
        }
        let mut left = exec;
        while left != 0 {
            let together = neighbours::<A>(left, address);
            left &= !together;
            if together & (together - 1) != 0 && self.run_together::<A, M>(memory, together, address, mode).is_ok() {
                continue;
            }
            // The first that fails stops the wave, as if each had gone by itself.
            self.run_each::<A, M>(memory, together, address, mode)?;
        }
        Ok(())
    }

    /// Changes the words of the lanes of a mask, one after the other.
    #[inline(always)]
    fn run_each<A: Atomic, M: Memory>(
        &mut self,
        memory: &mut M,
        lanes: u64,
        address: impl Fn(usize) -> u64,
        mode: u32,
    ) -> Result<(), Stop> {
        for lane in Active(lanes) {
            let old = A::Word::change(memory, address(lane), |old| self.change::<A>(lane, old, mode))?.split();
            (self.old[0][lane], self.old[1][lane]) = (old[0], old[1]);
        }
        Ok(())
    }

    /// Changes eight bytes of memory as all the lanes of a mask do, one after the other.
    #[inline(always)]
    fn run_together<A: Atomic, M: Memory>(
        &mut self,
        memory: &mut M,
        lanes: u64,
        address: impl Fn(usize) -> u64,
        mode: u32,
    ) -> Result<(), Stop> {
        let start = address(lanes.trailing_zeros() as usize % LANES) & !7;
        memory.change_u64(start, |mut eight| {
            for lane in Active(lanes) {
                let shift = 8 * (address(lane) - start) as u32;
                let old = (eight >> shift) as u32;
                let old = A::Word::join(old, (eight >> 32) as u32);
                let new = self.change::<A>(lane, old, mode).split();
                (self.old[0][lane], self.old[1][lane]) = (old.split()[0], old.split()[1]);
                eight = match A::Word::REGISTERS {
                    1 => eight & !(0xFFFF_FFFF << shift) | u64::from(new[0]) << shift,
                    _ => u64::join(new[0], new[1]),
                };
            }
            eight
        })?;
        Ok(())
    }

    /// Changes words of private memory.
    pub(crate) fn run_private<A: Atomic>(
        &mut self,
        scratch: &mut Scratch,
        offsets: &Lanes,
        exec: u64,
        mode: u32,
    ) -> Result<(), Stop> {
        let size = 4 * A::Word::REGISTERS;
        for lane in Active(exec) {
            let offset = offsets[lane];
            let mut words = [[0; 4]; 2];
            private::read(scratch, lane, offset, &mut words.as_flattened_mut()[..size])?;
            let old = words.map(u32::from_le_bytes);
            let new = self.change::<A>(lane, A::Word::join(old[0], old[1]), mode).split().map(u32::to_le_bytes);
            private::write(scratch, lane, offset, &new.as_flattened()[..size])?;
            self.old[0][lane] = old[0];
            self.old[1][lane] = old[1];
        }
        Ok(())
    }

    /// Writes what memory held to registers from `dst` on.
    #[inline(always)]
    pub(crate) fn commit<A: Atomic>(&self, file: &mut [Lanes; 256], dst: u32, exec: u64) {
        for k in 0..A::Word::REGISTERS {
            crate::operand::write_masked(&mut file[(dst as usize + k) & 0xFF], &self.old[k], exec);
        }
    }
}

/// The lowest lane of a mask, as a mask.
#[inline(always)]
fn lowest(lanes: u64) -> u64 {
    lanes & lanes.wrapping_neg()
}

/// Returns whether lanes that follow each other might have words in the same aligned eight bytes. Not worth finding out
/// where some lanes are off or the first two do.
#[inline(always)]
fn may_share(base: u64, offsets: &Lanes, exec: u64) -> bool {
    // The low halves of addresses: where they differ, the addresses do.
    let eight = |offset: u32| (base as u32).wrapping_add(offset) >> 3;
    if exec != !0 || eight(offsets[0]) == eight(offsets[1]) {
        return true;
    }
    let eights = offsets.map(eight);
    let mut same = 0;
    for lane in 1..LANES {
        same |= u32::from(eights[lane] == eights[lane - 1]);
    }
    same != 0
}

/// The lowest lane of a mask, and those after it whose words lie in the same aligned eight bytes.
#[inline(always)]
fn neighbours<A: Atomic>(lanes: u64, address: impl Fn(usize) -> u64) -> u64 {
    let size = 4 * A::Word::REGISTERS as u64;
    let mut active = Active(lanes);
    let first = active.next().map_or(0, &address);
    if !first.is_multiple_of(size) {
        return lowest(lanes);
    }
    // The lanes before the first one elsewhere.
    match active.find(|&lane| address(lane) & !7 != first & !7 || !address(lane).is_multiple_of(size)) {
        Some(end) => lanes & ((1 << end) - 1),
        None => lanes,
    }
}

/// Atomics that FLAT, GLOBAL and MUBUF have in common, with the same opcodes.
macro_rules! vector_atomics {
    ($prefix:literal, $make:ident) => {
        &[
            $make::<$crate::exec::access::atomic::Swap<u32>>(64, concat!($prefix, "swap")),
            $make::<$crate::exec::access::atomic::SwapIfSecond<u32>>(65, concat!($prefix, "cmpswap")),
            $make::<$crate::exec::access::atomic::Add<u32>>(66, concat!($prefix, "add")),
            $make::<$crate::exec::access::atomic::Sub<u32>>(67, concat!($prefix, "sub")),
            $make::<$crate::exec::access::atomic::Smin<u32>>(68, concat!($prefix, "smin")),
            $make::<$crate::exec::access::atomic::Umin<u32>>(69, concat!($prefix, "umin")),
            $make::<$crate::exec::access::atomic::Smax<u32>>(70, concat!($prefix, "smax")),
            $make::<$crate::exec::access::atomic::Umax<u32>>(71, concat!($prefix, "umax")),
            $make::<$crate::exec::access::atomic::And<u32>>(72, concat!($prefix, "and")),
            $make::<$crate::exec::access::atomic::Or<u32>>(73, concat!($prefix, "or")),
            $make::<$crate::exec::access::atomic::Xor<u32>>(74, concat!($prefix, "xor")),
            $make::<$crate::exec::access::atomic::Inc<u32>>(75, concat!($prefix, "inc")),
            $make::<$crate::exec::access::atomic::Dec<u32>>(76, concat!($prefix, "dec")),
            $make::<$crate::exec::access::atomic::AddF64>(79, concat!($prefix, "add_f64")),
            $make::<$crate::exec::access::atomic::MinF64>(80, concat!($prefix, "min_f64")),
            $make::<$crate::exec::access::atomic::MaxF64>(81, concat!($prefix, "max_f64")),
            $make::<$crate::exec::access::atomic::Swap<u64>>(96, concat!($prefix, "swap_x2")),
            $make::<$crate::exec::access::atomic::SwapIfSecond<u64>>(97, concat!($prefix, "cmpswap_x2")),
            $make::<$crate::exec::access::atomic::Add<u64>>(98, concat!($prefix, "add_x2")),
            $make::<$crate::exec::access::atomic::Sub<u64>>(99, concat!($prefix, "sub_x2")),
            $make::<$crate::exec::access::atomic::Smin<u64>>(100, concat!($prefix, "smin_x2")),
            $make::<$crate::exec::access::atomic::Umin<u64>>(101, concat!($prefix, "umin_x2")),
            $make::<$crate::exec::access::atomic::Smax<u64>>(102, concat!($prefix, "smax_x2")),
            $make::<$crate::exec::access::atomic::Umax<u64>>(103, concat!($prefix, "umax_x2")),
            $make::<$crate::exec::access::atomic::And<u64>>(104, concat!($prefix, "and_x2")),
            $make::<$crate::exec::access::atomic::Or<u64>>(105, concat!($prefix, "or_x2")),
            $make::<$crate::exec::access::atomic::Xor<u64>>(106, concat!($prefix, "xor_x2")),
            $make::<$crate::exec::access::atomic::Inc<u64>>(107, concat!($prefix, "inc_x2")),
            $make::<$crate::exec::access::atomic::Dec<u64>>(108, concat!($prefix, "dec_x2")),
        ]
    };
}
pub(crate) use vector_atomics;
