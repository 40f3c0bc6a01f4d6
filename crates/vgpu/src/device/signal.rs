//! Signals of the HSA runtime, as the packet processor uses them.

use std::mem::offset_of;
use std::sync::atomic::{Ordering, fence};

use kfd_abi::aql::SignalHandle;
use kfd_abi::exception::ExceptionCode;
use kfd_abi::hsa::{AmdQueue, AmdSignal};
use vgpu_isa::memory::Fault;

use super::context::Context;
use super::errors::inactive_bits;

const MAILBOX: u64 = offset_of!(AmdSignal, event_mailbox_ptr) as u64;
const EVENT: u64 = offset_of!(AmdSignal, event_id) as u64;
const START: u64 = offset_of!(AmdSignal, start_ts) as u64;
const END: u64 = offset_of!(AmdSignal, end_ts) as u64;
const INACTIVE: u64 = offset_of!(AmdQueue, queue_inactive_signal) as u64;

/// Reads the value of a signal.
pub(crate) fn value(cx: &mut Context<'_>, signal: SignalHandle) -> Result<i64, Fault> {
    cx.memory.read_u64(signal.value_address()).map(u64::cast_signed)
}

/// Completes a packet: times, then the value less one, then the event. Everything the packet wrote is visible before.
pub(crate) fn complete(cx: &mut Context<'_>, signal: u64, started: u64) -> Result<(), Fault> {
    if signal == 0 {
        return Ok(());
    }
    let now = (cx.clock)();
    cx.memory.write_u64(signal.wrapping_add(START), started)?;
    cx.memory.write_u64(signal.wrapping_add(END), now)?;
    change(cx, signal, |value| value.wrapping_sub(1))
}

/// Changes a signal's value and raises its event.
fn change(cx: &mut Context<'_>, signal: u64, change: impl FnMut(u64) -> u64) -> Result<(), Fault> {
    // The event's fields are read first: a thread that sees the new value may free the signal.
    let mailbox = cx.memory.read_u64(signal.wrapping_add(MAILBOX))?;
    let event = cx.memory.read_u32(signal.wrapping_add(EVENT))?;
    fence(Ordering::SeqCst);
    cx.memory.atomic_u64(signal.wrapping_add(AmdSignal::VALUE), change)?;
    if mailbox != 0 {
        cx.memory.write_u64(mailbox, u64::from(event))?;
        cx.interrupts.event(event);
    }
    Ok(())
}

/// Tells the runtime of a queue by the signal that its queue object names for errors, if it has one.
pub(crate) fn report(cx: &mut Context<'_>, queue_object: u64, code: ExceptionCode) -> Result<(), Fault> {
    let signal = cx.memory.read_u64(queue_object.wrapping_add(INACTIVE))?;
    if signal == 0 {
        return Ok(());
    }
    change(cx, signal, |value| value | inactive_bits(code))
}
