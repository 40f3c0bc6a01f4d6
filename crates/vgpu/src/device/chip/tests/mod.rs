//! Processes that compete, sleep and die.

mod death;
mod fairness;
mod room;
mod shares;
mod sleep;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::super::slots::{Geometry, Need, PriorityClass, SlotRequest, Slots};
use super::{Chip, ChipSlots, ProcessSlot};

/// A quarter of a compute unit.
const QUARTER: Need = Need { waves: 8, vgprs: 16, sgprs: 16, lds: 0 };

fn request(need: Need, class: PriorityClass) -> SlotRequest<'static> {
    SlotRequest { need, class, allowed: None }
}

fn medium(need: Need) -> SlotRequest<'static> {
    request(need, PriorityClass::Medium)
}

/// A device of `cus` compute units with two gpus and two tokens.
fn chip(cus: u32) -> (Arc<Chip>, OwnedFd) {
    let (chip, file) = Chip::create(Geometry::cdna(cus, 1), 2, 2).expect("shared memory");
    (Arc::new(chip), file)
}

/// The same with a stopped clock, so that no process comes too late for what it was offered.
fn patient_chip(cus: u32) -> (Arc<Chip>, OwnedFd) {
    let (mut chip, file) = Chip::create(Geometry::cdna(cus, 1), 2, 2).expect("shared memory");
    chip.stop_clock();
    (Arc::new(chip), file)
}

/// A new process on the first gpu.
fn new_process(chip: &Arc<Chip>) -> (ProcessSlot, ChipSlots) {
    let process = chip.add_process().expect("a free slot");
    (process, ChipSlots::new(Arc::clone(chip), process, 0).expect("a gpu"))
}

/// The totals are what the parts add up to, and nothing exceeds the device.
fn check(chip: &Chip, processes: &[ProcessSlot]) -> Result<(), String> {
    let size = chip.geometry();
    for gpu in 0..chip.gpus() {
        for cu in 0..size.cus as usize {
            let total = chip.totals(gpu)[cu].load();
            let empty = super::super::cu::Cu::default();
            let sum = processes.iter().fold(empty, |sum, &process| sum.plus(&chip.share(process, gpu)[cu].load()));
            if total != sum {
                return Err(format!("unit {cu} of gpu {gpu} holds {total:?}, its processes {sum:?}"));
            }
            let over = |simd: &super::super::cu::Simd| {
                simd.waves > size.waves || simd.vgprs > size.vgprs || simd.sgprs > size.sgprs
            };
            if total.lds > size.lds || total.simds.iter().any(over) {
                return Err(format!("unit {cu} of gpu {gpu} holds too much: {total:?}"));
            }
        }
        let waves: u32 = processes.iter().map(|&process| chip.occupancy_of(process, gpu)).sum();
        if waves != chip.occupancy(gpu) {
            return Err(format!("gpu {gpu} has {} waves, its processes {waves}", chip.occupancy(gpu)));
        }
    }
    Ok(())
}
