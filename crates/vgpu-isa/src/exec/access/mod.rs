//! What all instructions that access memory share: the kinds of memory, the kinds of values, and the ways in which the
//! lanes of a wave reach for them.
//!
//! Most instructions have all lanes on and addresses that follow each other, or one address for all. Both are noticed
//! with a few vector compares, and then one look at the mapping and one straight copy do the work of 64.

pub(crate) mod atomic;
pub(crate) mod float;
pub(crate) mod lanes;
pub(crate) mod private;
pub(crate) mod value;

use crate::inst::{Env, Flow, Stop};
use crate::memory::{Access, Port};
use crate::wave::{Lanes, M0, Wave};

/// Bytes of one lane, aligned so that whole words can be moved at once.
#[repr(align(16))]
#[derive(Clone, Copy, Default)]
pub(crate) struct Bytes(pub(crate) [u8; 16]);

/// Memory that lanes reach by a common base and an offset each.
pub(crate) trait Memory {
    /// Changing a word costs more than looking for lanes that change it together: other agents see this memory.
    const IS_EXPENSIVE: bool;

    /// Address of a lane.
    fn address(base: u64, offset: u32) -> u64;

    /// Where `length` bytes are, if they can be accessed without further care.
    fn span(&mut self, start: u64, length: u64, access: Access) -> Option<*mut u8>;

    /// Reads bytes the careful way.
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), Stop>;

    /// Reads the consecutive values of all lanes the careful way. Returns false if lanes have to be read one by one.
    fn read_all(&mut self, address: u64, out: &mut [u8]) -> bool {
        self.read(address, out).is_ok()
    }

    /// Writes bytes the careful way.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Stop>;

    /// Writes the consecutive values of all lanes the careful way. Returns false if lanes have to be written one by
    /// one, those included that have been written.
    fn write_all(&mut self, address: u64, bytes: &[u8]) -> bool {
        self.write(address, bytes).is_ok()
    }

    /// Replaces an aligned word by a function of it; the word before.
    fn change_u32(&mut self, address: u64, change: impl FnMut(u32) -> u32) -> Result<u32, Stop>;

    /// Replaces an aligned double word by a function of it; the double word before.
    fn change_u64(&mut self, address: u64, change: impl FnMut(u64) -> u64) -> Result<u64, Stop>;
}

impl Memory for Port<'_> {
    const IS_EXPENSIVE: bool = true;

    #[inline(always)]
    fn address(base: u64, offset: u32) -> u64 {
        base.wrapping_add(u64::from(offset))
    }

    #[inline(always)]
    fn span(&mut self, start: u64, length: u64, access: Access) -> Option<*mut u8> {
        self.direct(start, length, access)
    }

    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), Stop> {
        Port::read(self, address, out).map_err(Stop::Memory)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Stop> {
        Port::write(self, address, bytes).map_err(Stop::Memory)
    }

    #[inline(always)]
    fn change_u32(&mut self, address: u64, change: impl FnMut(u32) -> u32) -> Result<u32, Stop> {
        self.atomic_u32(address, change).map_err(Stop::Memory)
    }

    #[inline(always)]
    fn change_u64(&mut self, address: u64, change: impl FnMut(u64) -> u64) -> Result<u64, Stop> {
        self.atomic_u64(address, change).map_err(Stop::Memory)
    }
}

/// LDS of the workgroup. Only one wave of a workgroup runs at a time, so plain accesses are atomic here.
///
/// An access of a lane that does not lie in the allocation reads zero and writes nothing, without an exception: library
/// kernels give such addresses to lanes that must not write. That holds for DS instructions and for FLAT addresses of
/// LDS, with and without atomics, on MI200 and MI300 (ISA manuals, "Memory Error Checking": writes outside the range
/// store no value, reads return zero).
pub(crate) struct Lds<'a>(pub(crate) &'a mut [u8]);

impl Lds<'_> {
    /// Returns the bytes of an access, or `None` outside the allocation.
    #[inline(always)]
    fn inside(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let start = usize::try_from(address).ok()?;
        self.0.get_mut(start..start.checked_add(length)?)
    }

    /// Replaces an aligned word by a function of it. Returns the word before, which is zero outside the allocation.
    #[inline(always)]
    fn change<const N: usize>(
        &mut self,
        address: u64,
        change: impl FnOnce([u8; N]) -> [u8; N],
    ) -> Result<[u8; N], Stop> {
        if !address.is_multiple_of(N as u64) {
            return Err(Stop::Lds { offset: address });
        }
        let Some(word) = self.inside(address, N).and_then(|bytes| <&mut [u8; N]>::try_from(bytes).ok()) else {
            return Ok([0; N]);
        };
        let old = *word;
        *word = change(old);
        Ok(old)
    }
}

impl Memory for Lds<'_> {
    const IS_EXPENSIVE: bool = false;

    #[inline(always)]
    fn address(base: u64, offset: u32) -> u64 {
        u64::from((base as u32).wrapping_add(offset))
    }

    #[inline(always)]
    fn span(&mut self, start: u64, length: u64, _access: Access) -> Option<*mut u8> {
        // Neither is above 2^33.
        (start + length <= self.0.len() as u64).then(|| self.0.as_mut_ptr().wrapping_add(start as usize))
    }

    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), Stop> {
        match self.inside(address, out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => out.fill(0),
        }
        Ok(())
    }

    /// `span` has failed, so that some lanes are outside.
    fn read_all(&mut self, _address: u64, _out: &mut [u8]) -> bool {
        false
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Stop> {
        if let Some(to) = self.inside(address, bytes.len()) {
            to.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// As for reads.
    fn write_all(&mut self, _address: u64, _bytes: &[u8]) -> bool {
        false
    }

    #[inline(always)]
    fn change_u32(&mut self, address: u64, mut change: impl FnMut(u32) -> u32) -> Result<u32, Stop> {
        let old = self.change(address, |old| change(u32::from_le_bytes(old)).to_le_bytes())?;
        Ok(u32::from_le_bytes(old))
    }

    #[inline(always)]
    fn change_u64(&mut self, address: u64, mut change: impl FnMut(u64) -> u64) -> Result<u64, Stop> {
        let old = self.change(address, |old| change(u64::from_le_bytes(old)).to_le_bytes())?;
        Ok(u64::from_le_bytes(old))
    }
}

/// A register file: accumulation registers if `accumulation`, else the architectural ones.
#[inline(always)]
pub(crate) fn file(wave: &mut Wave, accumulation: bool) -> &mut [Lanes; 256] {
    if accumulation { &mut wave.a } else { &mut wave.v }
}

/// Places in LDS of a word for each lane, from M0 plus the instruction's offset on.
fn words_in_lds(wave: &Wave, offset: i32) -> Lanes {
    let base = (wave.s[M0] & 0xFFFF).wrapping_add_signed(offset);
    std::array::from_fn(|lane| base.wrapping_add(4 * lane as u32))
}

/// Puts a word for each lane that is on into LDS.
pub(crate) fn to_lds(wave: &Wave, env: &mut Env<'_>, offset: i32, words: &Lanes) -> Result<(), Stop> {
    let offsets = words_in_lds(wave, offset);
    lanes::store::<value::Words<1>, _>(&mut Lds(env.lds), 0, &offsets, wave.exec(), &[*words])
}

/// Gets the word of each lane that is on from the same place.
pub(crate) fn from_lds(wave: &Wave, env: &mut Env<'_>, offset: i32) -> Result<[Lanes; 1], Stop> {
    let mut words = <value::Words<1> as value::Load>::ZERO;
    lanes::load::<value::Words<1>, _>(&mut Lds(env.lds), 0, &words_in_lds(wave, offset), wave.exec(), &mut words)?;
    Ok(words)
}

/// Ends an instruction: the next one, or a stop.
#[inline(always)]
pub(crate) fn end(env: &mut Env<'_>, result: Result<(), Stop>) -> Flow {
    match result {
        Ok(()) => Flow::Next,
        Err(why) => env.stopped(why),
    }
}

/// Makes a handler for any CPU and one for wide vectors out of one body, and a function that makes the operation.
macro_rules! twice {
    ($(#[$doc:meta])* $name:ident, $portable:ident, $wide:ident, $body:ident, <$($generic:ident $(: $bound:path)?),*> $(, const $($n:ident),+)?) => {
        fn $portable<$($generic $(: $bound)?,)* $($(const $n: usize,)+)?>(
            wave: &mut $crate::wave::Wave,
            inst: &$crate::inst::Inst,
            env: &mut $crate::inst::Env<'_>,
        ) -> $crate::inst::Flow {
            let result = $body::<$($generic,)* $($($n,)+)?>(wave, inst, env);
            $crate::exec::access::end(env, result)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        fn $wide<$($generic $(: $bound)?,)* $($(const $n: usize,)+)?>(
            wave: &mut $crate::wave::Wave,
            inst: &$crate::inst::Inst,
            env: &mut $crate::inst::Env<'_>,
        ) -> $crate::inst::Flow {
            let result = $body::<$($generic,)* $($($n,)+)?>(wave, inst, env);
            $crate::exec::access::end(env, result)
        }

        #[cfg(not(target_arch = "x86_64"))]
        use $portable as $wide;

        $(#[$doc])*
        pub(crate) const fn $name<$($generic $(: $bound)?,)* $($(const $n: usize,)+)?>(
            encoding: $crate::inst::Encoding,
            opcode: u16,
            name: &'static str,
        ) -> $crate::inst::Op {
            $crate::inst::Op {
                wide: $wide::<$($generic,)* $($($n,)+)?>,
                ..$crate::inst::Op::new(encoding, opcode, name, $portable::<$($generic,)* $($($n,)+)?>)
            }
        }
    };
}
pub(crate) use twice;
