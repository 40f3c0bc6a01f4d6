//! The registers of one wave in the save area.

use std::ops::Range;

use kfd_abi::save_area::{WaveLayout, hwreg};
use vgpu_isa::memory::{Fault, Port};
use vgpu_isa::wave::{FLAT_SCRATCH, M0, TTMP0, VCC, Wave, XNACK_MASK, status, trapsts};

/// Pattern that overwrites saved registers.
pub(super) const POISON: u32 = 0xDBDB_DBDB;

/// Trap temporaries that the trap handler leaves alone, and so can save.
const TTMPS: [usize; 9] = [4, 5, 6, 7, 8, 9, 10, 11, 13];
/// The largest number of words between the vector registers and the LDS.
const WORDS: usize = 112 + WaveLayout::HWREG_BYTES as usize / 4;
/// Scalar registers with numbers of their own, specials included.
const NUMBERED: usize = 108;
/// Accumulation registers of a wave.
const ACCUMULATORS: usize = 256;

/// Returns which scalar register each saved word is, by operand code. The last of the allocation are the special ones,
/// wherever that ends.
fn scalars(count: usize, special: usize) -> [Range<usize>; 2] {
    const { assert!(FLAT_SCRATCH + 2 == XNACK_MASK && XNACK_MASK + 2 == VCC && VCC + 2 == NUMBERED) };
    let end = count.min(NUMBERED);
    let ordinary = end.saturating_sub(special);
    let first = NUMBERED - special;
    [0..ordinary, first..first + (end - ordinary)]
}

/// Returns the accumulation registers that exist of those that are laid out. A kernel may be given more than there are
/// when it asks for few ordinary ones; the rest have their room in the area and nothing in it.
fn accumulators(layout: &WaveLayout) -> Range<usize> {
    0..(layout.acc_vgprs as usize).min(ACCUMULATORS)
}

/// Returns the offset of the words behind the vector registers, and their number.
fn words_of(layout: &WaveLayout) -> (u64, usize) {
    let count = (layout.lds() - layout.sgpr(0)) / 4;
    (u64::from(layout.sgpr(0)), (count as usize).min(WORDS))
}

/// Writes a wave's registers to `at`. The last `special` scalar registers are VCC and its like.
pub(super) fn write(
    memory: &mut Port<'_>,
    at: u64,
    wave: &Wave,
    layout: &WaveLayout,
    special: usize,
) -> Result<(), Fault> {
    memory.write(at, bytes(wave.v[..layout.arch_vgprs as usize].as_flattened()))?;
    let accumulation = at.wrapping_add(u64::from(layout.acc_vgpr(0)));
    memory.write(accumulation, bytes(wave.a[accumulators(layout)].as_flattened()))?;

    let mut words = [0; WORDS];
    let (offset, count) = words_of(layout);
    let scalar_count = layout.sgprs as usize;
    let [ordinary, special] = scalars(scalar_count, special);
    let (low, high) = words.split_at_mut(ordinary.len());
    low.copy_from_slice(&wave.s[ordinary]);
    high[..special.len()].copy_from_slice(&wave.s[special]);
    let hardware = &mut words[scalar_count..];
    let mut set = |index: u32, value: u32| hardware[index as usize] = value;
    set(hwreg::M0, wave.s[M0]);
    set(hwreg::PC_LO, wave.pc as u32);
    set(hwreg::PC_HI, (wave.pc >> 32) as u32 & 0xFFFF);
    set(hwreg::EXEC_LO, wave.exec() as u32);
    set(hwreg::EXEC_HI, (wave.exec() >> 32) as u32);
    set(hwreg::STATUS, wave.status_register());
    set(hwreg::TRAPSTS, wave.trapsts);
    set(hwreg::XNACK_MASK_LO, wave.s[XNACK_MASK]);
    set(hwreg::XNACK_MASK_HI, wave.s[XNACK_MASK + 1]);
    set(hwreg::MODE, wave.mode());
    for number in TTMPS {
        hardware[WaveLayout::TTMP_OFFSET as usize / 4 + number] = wave.s[TTMP0 + number];
    }
    memory.write(at.wrapping_add(offset), bytes(&words[..count]))
}

/// Reads a wave's registers from `at`. Those that are not saved keep what they held, as on hardware, except trap
/// temporaries, which are zero.
pub(super) fn read(
    memory: &mut Port<'_>,
    at: u64,
    wave: &mut Wave,
    layout: &WaveLayout,
    special: usize,
) -> Result<(), Fault> {
    memory.read(at, bytes_mut(wave.v[..layout.arch_vgprs as usize].as_flattened_mut()))?;
    let accumulation = at.wrapping_add(u64::from(layout.acc_vgpr(0)));
    memory.read(accumulation, bytes_mut(wave.a[accumulators(layout)].as_flattened_mut()))?;

    let mut words = [0; WORDS];
    let (offset, count) = words_of(layout);
    memory.read(at.wrapping_add(offset), bytes_mut(&mut words[..count]))?;
    let scalar_count = layout.sgprs as usize;
    let [ordinary, special] = scalars(scalar_count, special);
    let (low, high) = words.split_at(ordinary.len());
    wave.s[ordinary].copy_from_slice(low);
    wave.s[special.clone()].copy_from_slice(&high[..special.len()]);
    let hardware = &words[scalar_count..];
    let get = |index: u32| hardware[index as usize];
    let wide = |low: u32, high: u32| u64::from(get(high)) << 32 | u64::from(get(low));
    wave.s[M0] = get(hwreg::M0);
    wave.pc = wide(hwreg::PC_LO, hwreg::PC_HI) & 0xFFFF_FFFF_FFFF;
    wave.set_exec(wide(hwreg::EXEC_LO, hwreg::EXEC_HI));
    let saved_status = get(hwreg::STATUS);
    wave.scc = saved_status & status::SCC != 0;
    // Not PRIV, which the trap handler that restores waves cannot write: no wave is saved in one.
    wave.status = saved_status & !(status::SCC | status::EXECZ | status::VCCZ | status::PRIV) | status::VALID;
    wave.trapsts = get(hwreg::TRAPSTS) & !trapsts::SAVECTX;
    wave.set_s64(XNACK_MASK, wide(hwreg::XNACK_MASK_LO, hwreg::XNACK_MASK_HI));
    wave.set_mode(get(hwreg::MODE));
    wave.s[TTMP0..TTMP0 + 16].fill(0);
    for number in TTMPS {
        wave.s[TTMP0 + number] = hardware[WaveLayout::TTMP_OFFSET as usize / 4 + number];
    }
    Ok(())
}

/// Lanes of a vector register that are overwritten: a cache line of each costs a quarter of all, and shows as well that
/// a register was not read back.
const POISONED_LANES: usize = 16;

/// Overwrites what was saved, so that nothing can continue without reading it back.
pub(super) fn poison(wave: &mut Wave, layout: &WaveLayout) {
    let accumulation = &mut wave.a[accumulators(layout)];
    for register in wave.v[..layout.arch_vgprs as usize].iter_mut().chain(accumulation) {
        register[..POISONED_LANES].fill(POISON);
    }
    wave.s.fill(POISON);
    wave.pc = u64::from(POISON);
    wave.scc = !wave.scc;
    wave.status = POISON;
    wave.trapsts = POISON;
    wave.set_mode(POISON);
}

fn bytes(words: &[u32]) -> &[u8] {
    // SAFETY: every byte of a word is a byte, and bytes have no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn bytes_mut(words: &mut [u32]) -> &mut [u8] {
    // SAFETY: as in `bytes`, and any bytes make a word.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use vgpu_isa::memory::{Mapping, Space};

    use super::*;

    const START: u64 = 1 << 32;

    #[test]
    fn what_is_written_is_read_back() {
        let layout = WaveLayout { arch_vgprs: 12, acc_vgprs: 20, sgprs: 32, lds_bytes: 0 };
        let memory: Vec<AtomicU64> = (0..layout.size() / 8).map(|_| AtomicU64::new(0)).collect();
        let host = memory.as_ptr().cast_mut().cast();
        let end = START + u64::from(layout.size());
        let mut space = Space::new();
        // SAFETY: the memory outlives the space and is made of atomics.
        unsafe { space.insert(Mapping { start: START, end, host, writable: true, executable: false, guarded: false }) };
        let mut port = Port::new(&space);

        let mut wave = Wave::new();
        let numbers = |from: u32| (from..).step_by(7).map(|n| n.wrapping_mul(0x9E37_79B9));
        wave.v.as_flattened_mut().iter_mut().zip(numbers(1)).for_each(|(lane, n)| *lane = n);
        wave.a.as_flattened_mut().iter_mut().zip(numbers(2)).for_each(|(lane, n)| *lane = n);
        wave.s.iter_mut().zip(numbers(3)).for_each(|(register, n)| *register = n);
        wave.pc = 0x7FFF_1234_5678;
        wave.scc = true;
        wave.status |= status::IN_TG | status::IN_BARRIER | status::PRIV;
        wave.trapsts = 0x55;
        wave.set_mode(0x2C3);
        write(&mut port, START, &wave, &layout, 6).unwrap();

        let mut copy = Wave::new();
        read(&mut port, START, &mut copy, &layout, 6).unwrap();
        assert_eq!((&copy.v[..12], &copy.a[..20]), (&wave.v[..12], &wave.a[..20]));
        assert!(copy.v[12..].iter().chain(&copy.a[20..]).all(|register| *register == [0; 64]), "not allocated");
        let scalars: Vec<_> = (0..26).chain(102..108).chain(TTMPS.map(|n| TTMP0 + n)).chain([M0]).collect();
        assert_eq!(scalars.iter().map(|&n| copy.s[n]).collect::<Vec<_>>(), {
            scalars.iter().map(|&n| wave.s[n]).collect::<Vec<_>>()
        });
        assert_eq!((copy.pc, copy.exec(), copy.scc, copy.mode()), (wave.pc, wave.exec(), wave.scc, wave.mode()));
        assert_eq!((copy.status, copy.trapsts), (wave.status & !status::PRIV, wave.trapsts));
        assert_eq!((copy.unusual(), copy.s[TTMP0]), (wave.unusual(), 0));

        poison(&mut wave, &layout);
        let all = wave.v[..12].iter().chain(&wave.a[..20]);
        assert!(all.into_iter().all(|register| register[..POISONED_LANES] == [POISON; POISONED_LANES]));
    }

    #[test]
    fn special_registers_are_the_last_of_the_allocation() {
        let all: Vec<_> = scalars(112, 6).into_iter().flatten().collect();
        assert_eq!(all, (0..108).collect::<Vec<_>>());
        let small: Vec<_> = scalars(16, 6).into_iter().flatten().collect();
        assert_eq!(small, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 102, 103, 104, 105, 106, 107]);
        let own: Vec<_> = scalars(32, 2).into_iter().flatten().collect();
        assert_eq!(own, (0..30).chain([106, 107]).collect::<Vec<_>>());
    }
}
