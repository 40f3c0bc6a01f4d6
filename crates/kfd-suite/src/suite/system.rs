//! Tests of queues, copies and signals rather than of instructions.

use std::time::Instant;

use kfd_runtime::{Arguments, CodeObject, Executable, Launch, Order, Placement, Queue, Result, Signal};

use super::job::{Inputs, Mismatch};
use super::object;
use crate::bench::{Bench, Outcome};
use crate::checksum::Checksum;

/// The first difference between what a buffer holds and should hold.
fn difference(buffer: usize, found: &[u8], expected: &[u8]) -> Option<Mismatch> {
    let element = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
    let show = |bytes: &[u8]| bytes.get(element).map_or_else(String::new, |byte| format!("{byte:#04x}"));
    Some(Mismatch { buffer, element, found: show(found), expected: show(expected) })
}

/// More bytes than one packet can copy, and not a whole number of words.
const COPIED: usize = (5 << 20) + 3;

/// Fills video memory, overwrites it from the host, copies it within and back.
pub(super) fn copy(bench: &mut Bench, seed: u64) -> Result<Outcome> {
    let mut inputs = Inputs::new(seed, "copy");
    let pattern = inputs.word();
    let bytes: Vec<u8> = inputs.many(COPIED, |inputs| (inputs.word() >> 24) as u8);
    let device = bench.device().clone();
    let begin = Instant::now();

    let filled = device.allocate(4096, Placement::Vram)?;
    let done = Signal::new(&device, 1)?;
    bench.copies.fill(&filled, pattern, &done)?;
    bench.wait_for_copy(&done)?;
    let found = bench.contents(&filled, filled.len(), Placement::Vram)?;
    let mut checksum = Checksum::of(&found);
    let fill = difference(0, &found, &pattern.to_le_bytes().repeat(filled.len() / 4));

    let first = bench.buffer(&bytes, Placement::Vram)?;
    let second = device.allocate(COPIED, Placement::Vram)?;
    done.set(1)?;
    bench.copies.copy(&first, &second, COPIED, &done)?;
    bench.wait_for_copy(&done)?;
    let found = bench.contents(&second, COPIED, Placement::Vram)?;
    let copy = difference(1, &found, &bytes);
    checksum.add(&found);

    Ok(Outcome { items: COPIED as u64, elapsed: begin.elapsed(), mismatch: fill.or(copy), checksum })
}

/// A second queue waits for a signal that only a kernel of the first counts down, then overwrites its result. Without
/// the wait the first kernel would be the last to write.
pub(super) fn barrier(bench: &mut Bench, seed: u64) -> Result<Outcome> {
    const GROUPS: u32 = 4;
    const LANES: u16 = 64;
    const COUNT: u32 = GROUPS * LANES as u32;
    let pattern = Inputs::new(seed, "barrier").word();
    let device = bench.device().clone();
    let slow = Executable::load(&mut bench.queue, &CodeObject::parse(object!("spin"))?)?;
    let quick = Executable::load(&mut bench.queue, &CodeObject::parse(object!("fill"))?)?;
    let (spin, fill) = (slow.kernel("spin")?, quick.kernel("fill")?);
    let out = device.allocate(COUNT as usize * 4, Placement::Gtt)?;
    let spin_block = Arguments::default().address(out.address()).u32(50_000).block(spin.argument_bytes);
    let fill_block = Arguments::default().address(out.address()).u32(pattern).u32(COUNT).block(fill.argument_bytes);
    let spin_arguments = bench.buffer(&spin_block, Placement::Gtt)?;
    let fill_arguments = bench.buffer(&fill_block, Placement::Gtt)?;

    let mut second = Queue::new(&device)?;
    let (spun, passed, filled) = (Signal::new(&device, 1)?, Signal::new(&device, 1)?, Signal::new(&device, 1)?);
    let begin = Instant::now();
    second.barrier_and(&[&spun], Order::Free, &passed)?;
    let whole = Launch::linear(COUNT.div_ceil(256), 256);
    second.dispatch(&fill, fill_arguments.address(), &whole, Order::AfterPrevious, &filled)?;
    let launch = Launch::linear(GROUPS, LANES);
    bench.queue.dispatch(&spin, spin_arguments.address(), &launch, Order::AfterPrevious, &spun)?;
    bench.wait(&spun)?;
    bench.wait(&passed)?;
    bench.wait(&filled)?;
    let elapsed = begin.elapsed();

    let expected: Vec<u8> = (0..COUNT).flat_map(|item| (pattern ^ item).to_le_bytes()).collect();
    let found = out.read(0, expected.len())?;
    let mismatch = difference(0, &found, &expected);
    Ok(Outcome { items: launch.items(), elapsed, mismatch, checksum: Checksum::of(&found) })
}

/// Runs one small kernel more often than a ring has slots, without waiting in between; one signal counts them all.
pub(super) fn ring(bench: &mut Bench, _: u64) -> Result<Outcome> {
    const TIMES: u32 = 2500;
    const LANES: u32 = 64;
    let device = bench.device().clone();
    let program = Executable::load(&mut bench.queue, &CodeObject::parse(object!("counter"))?)?;
    let kernel = program.kernel("counter")?;
    let total = bench.buffer(&0u32.to_le_bytes(), Placement::Gtt)?;
    let block = Arguments::default().address(total.address()).u32(1).block(kernel.argument_bytes);
    let arguments = bench.buffer(&block, Placement::Gtt)?;
    let done = Signal::new(&device, TIMES.into())?;
    let launch = Launch::linear(1, LANES as u16);
    let begin = Instant::now();
    for _ in 0..TIMES {
        bench.queue.dispatch(&kernel, arguments.address(), &launch, Order::Free, &done)?;
    }
    bench.wait(&done)?;
    let expected = TIMES * (LANES * (LANES + 1) / 2);
    let found = total.read(0, 4)?;
    let mismatch = difference(0, &found, &expected.to_le_bytes());
    let (items, elapsed) = (launch.items() * u64::from(TIMES), begin.elapsed());
    Ok(Outcome { items, elapsed, mismatch, checksum: Checksum::of(&found) })
}
