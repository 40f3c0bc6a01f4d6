//! A chain of kernels, each of which continues where the one before ended: work in which nothing can be lost or
//! repeated unnoticed.
//!
//! What `n` kernels must leave behind is computed on the host with the same operations on the same numbers, so it can
//! be compared bit by bit; see `kernels/advance.c`.

use std::time::Duration;

use kfd_runtime::{
    Arguments, Buffer, CodeObject, Device, Executable, Kernel, Launch, Order, Placement, Queue, Result, Signal,
};

use crate::checksum::Checksum;

/// Lanes of a workgroup.
pub const LANES: u32 = 256;
/// Waves of a workgroup.
const WAVES: u32 = LANES / 64;
/// What a step keeps of a value.
const KEEP: f32 = 1.0 - 1.0 / (1 << 18) as f32;
const FACTOR: u32 = 1_664_525;
const SUM: u32 = 1_013_904_223;
/// Room for one argument block; blocks lie on cache lines of their own.
const BLOCK: usize = 256;

/// How much one kernel of a chain does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Workgroups.
    pub groups: u32,
    /// Steps of every lane.
    pub steps: u32,
}

/// Returns the number of workgroups that fill a gpu: no wave of another process fits beside them.
#[must_use]
pub fn groups_to_fill(device: &Device) -> u32 {
    let gpu = &device.node().gpu;
    (gpu.cus.saturating_mul(gpu.waves_per_cu) / WAVES).max(1)
}

/// A queue with a chain of kernels on it.
#[derive(Debug)]
pub struct Chain {
    queue: Queue,
    kernel: Kernel,
    _program: Executable,
    work: Work,
    values: Buffer,
    marks: Buffer,
    counts: Buffer,
    blocks: Buffer,
    depth: u32,
    submitted: u32,
}

impl Chain {
    /// Creates the queue and the state before the first kernel. At most `depth` kernels are under way at a time.
    ///
    /// # Errors
    ///
    /// If the driver refuses, or the gpu has another instruction set.
    pub fn new(device: &Device, work: Work, depth: u32) -> Result<Chain> {
        let mut queue = Queue::new(device)?;
        let program = Executable::load(&mut queue, &CodeObject::parse(crate::suite::ADVANCE)?)?;
        let kernel = program.kernel("advance")?;
        let start = State::after(work, 0);
        let words = |words: &[u32]| buffer(device, words.iter().map(|word| word.to_le_bytes()));
        let depth = depth.max(1);
        Ok(Chain {
            kernel,
            _program: program,
            work,
            values: buffer(device, start.values.iter().map(|value| value.to_le_bytes()))?,
            marks: words(&start.marks)?,
            counts: words(&start.counts)?,
            blocks: device.allocate(depth as usize * BLOCK, Placement::Gtt)?,
            queue,
            depth,
            submitted: 0,
        })
    }

    /// Submits the next kernel. No more than the depth of the chain may be under way, this one included: their
    /// arguments would be overwritten.
    ///
    /// # Errors
    ///
    /// If the ring stays full.
    pub fn submit(&mut self, completion: Option<&Signal>) -> Result<()> {
        let arguments = Arguments::default()
            .address(self.values.address())
            .address(self.marks.address())
            .address(self.counts.address())
            .u32(self.submitted)
            .u32(self.work.steps)
            .block(self.kernel.argument_bytes);
        let offset = (self.submitted % self.depth) as usize * BLOCK;
        self.blocks.write(offset, &arguments)?;
        let place = self.blocks.address().plus(offset as u64);
        let launch = Launch::linear(self.work.groups, LANES as u16);
        self.queue.dispatch(&self.kernel, place, &launch, Order::AfterPrevious, completion)?;
        self.submitted += 1;
        Ok(())
    }

    /// Waits, asleep, until a kernel has counted its signal down.
    ///
    /// # Errors
    ///
    /// If the gpu fails or the time is up.
    pub fn wait(&self, signal: &Signal, limit: Duration) -> Result<()> {
        self.queue.wait(signal, limit)
    }

    /// Returns the number of kernels submitted so far.
    #[must_use]
    pub fn submitted(&self) -> u32 {
        self.submitted
    }

    /// Reads the state that the kernels left. All of them must have completed.
    ///
    /// # Errors
    ///
    /// Never in practice: the buffers are as long as they were made.
    pub fn state(&self) -> Result<State> {
        let words = |buffer: &Buffer| -> Result<Vec<u32>> {
            let bytes = buffer.read(0, buffer.len())?;
            Ok(bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
        };
        let values = words(&self.values)?.into_iter().map(f32::from_bits).collect();
        Ok(State { values, marks: words(&self.marks)?, counts: words(&self.counts)? })
    }
}

fn buffer(device: &Device, words: impl Iterator<Item = [u8; 4]>) -> Result<Buffer> {
    let bytes: Vec<u8> = words.flatten().collect();
    let mut buffer = device.allocate(bytes.len(), Placement::Gtt)?;
    buffer.write(0, &bytes)?;
    Ok(buffer)
}

/// State of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Of every lane: moved by every step.
    pub values: Vec<f32>,
    /// Of every lane: changed by every kernel, and like no other lane's.
    pub marks: Vec<u32>,
    /// Of every workgroup: how often it ran.
    pub counts: Vec<u32>,
}

impl State {
    /// Computes on the host the state after `kernels` kernels.
    #[must_use]
    pub fn after(work: Work, kernels: u32) -> State {
        let items = work.groups * LANES;
        let mut group: Vec<f32> = (0..LANES).map(|lane| lane as f32).collect();
        let mut marks: Vec<u32> = (0..items).collect();
        for kernel in 0..kernels {
            for lanes in group.as_chunks_mut().0 {
                advance(lanes, kernel, work.steps);
            }
            for (item, mark) in (0..).zip(&mut marks) {
                *mark = mark.wrapping_mul(FACTOR).wrapping_add(item).wrapping_add(kernel);
            }
        }
        State { values: group.repeat(work.groups as usize), marks, counts: vec![kernels; work.groups as usize] }
    }

    /// Returns a checksum over all of the state.
    #[must_use]
    pub fn checksum(&self) -> Checksum {
        let mut sum = Checksum::default();
        self.values.iter().for_each(|value| sum.add(&value.to_le_bytes()));
        self.marks.iter().chain(&self.counts).for_each(|word| sum.add(&word.to_le_bytes()));
        sum
    }

    /// Workgroups that should have run `kernels` times: how many runs are missing, and how many are too many.
    #[must_use]
    pub fn lost_and_repeated(&self, kernels: u32) -> (u64, u64) {
        let missing = self.counts.iter().map(|&count| u64::from(kernels.saturating_sub(count))).sum();
        let extra = self.counts.iter().map(|&count| u64::from(count.saturating_sub(kernels))).sum();
        (missing, extra)
    }
}

/// The steps of one kernel, for as many lanes as registers hold at a time.
fn advance(lanes: &mut [f32; 32], kernel: u32, steps: u32) {
    let mut values = *lanes;
    let mut word = kernel.wrapping_mul(0x9E37_79B1).wrapping_add(1);
    for _ in 0..steps {
        word = word.wrapping_mul(FACTOR).wrapping_add(SUM);
        let push = (word.cast_signed() >> 8) as f32;
        for value in &mut values {
            *value = *value * KEEP + push;
        }
    }
    *lanes = values;
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Work = Work { groups: 3, steps: 1000 };

    #[test]
    fn what_is_kept_is_what_the_kernel_keeps() {
        assert_eq!(KEEP.to_bits(), 0x3F7F_FFC0);
    }

    #[test]
    fn nothing_has_happened_before_the_first_kernel_and_every_kernel_changes_everything() {
        let [start, one, two] = [0, 1, 2].map(|kernels| State::after(WORK, kernels));
        assert_eq!(start.counts, [0; 3]);
        for (before, after) in [(&start, &one), (&one, &two)] {
            assert!(before.values.iter().zip(&after.values).all(|(before, after)| before != after));
            assert!(before.marks.iter().zip(&after.marks).filter(|(before, after)| before == after).count() < 2);
        }
    }

    /// One step left out or made twice in the first of a hundred kernels is still to be seen after the last.
    #[test]
    fn a_step_too_few_or_too_many_is_remembered() {
        let run = |first: u32| {
            let mut lanes = [5.0; 32];
            advance(&mut lanes, 0, first);
            (1..100).for_each(|kernel| advance(&mut lanes, kernel, WORK.steps));
            lanes
        };
        let right = run(WORK.steps);
        for wrong in [WORK.steps - 1, WORK.steps + 1] {
            assert!(right.iter().zip(run(wrong)).all(|(right, wrong)| *right != wrong));
        }
    }

    #[test]
    fn values_stay_finite() {
        let state = State::after(Work { groups: 1, steps: 50_000 }, 20);
        assert!(state.values.iter().all(|value| value.abs() < 1e14), "{:?}", state.values.first());
    }

    #[test]
    fn runs_that_are_missing_and_those_that_are_too_many_are_counted_apart() {
        let mut state = State::after(WORK, 5);
        assert_eq!(state.lost_and_repeated(5), (0, 0));
        state.counts = vec![5, 3, 6];
        assert_eq!(state.lost_and_repeated(5), (2, 1));
        let sum = state.checksum();
        state.marks[700] ^= 1;
        assert_ne!(state.checksum(), sum);
    }
}
