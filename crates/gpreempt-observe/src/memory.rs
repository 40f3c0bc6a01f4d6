//! The memory of a tenant, and what its signals say.
//!
//! Every read is of an instant of its own, between which the tenant goes on. Nothing here may wait for a tenant: what a
//! host cannot read at once is away.

use kfd_abi::aql::{Packet, SignalHandle};

/// Why memory of a tenant could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// It is no longer there: a signal there is no longer waited for, and a ring there is of a queue that ends.
    Gone,
    /// It is not present now, and the reader may not wait for it: nothing is known to have changed.
    Away,
}

/// Reads memory of a tenant by its own addresses, which may be anything.
pub trait TenantMemory {
    /// Fills `bytes`, at most 2 KiB, with what lies at `address`. After a failure their contents are not used.
    ///
    /// # Errors
    ///
    /// If not all of it can be read now.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), ReadFailure>;

    /// Reads the 64-bit number at `address`: an index, or the value of a signal.
    ///
    /// # Errors
    ///
    /// As [`TenantMemory::read`].
    fn read_u64(&self, address: u64) -> Result<u64, ReadFailure> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// A read that decides something is away: nothing may be concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away;

impl From<Away> for ReadFailure {
    fn from(_: Away) -> ReadFailure {
        ReadFailure::Away
    }
}

/// What was read, or `gone` where nothing is left to read.
fn unless_gone<T>(read: Result<T, ReadFailure>, gone: T) -> Result<T, Away> {
    match read {
        Ok(read) => Ok(read),
        Err(ReadFailure::Gone) => Ok(gone),
        Err(ReadFailure::Away) => Err(Away),
    }
}

fn value(signal: SignalHandle, memory: &impl TenantMemory) -> Result<i64, ReadFailure> {
    memory.read_u64(signal.value_address()).map(u64::cast_signed)
}

/// Whether a completion signal has fired. One that is gone is no longer waited for.
pub(crate) fn has_fired(signal: SignalHandle, memory: &impl TenantMemory) -> Result<bool, Away> {
    unless_gone(value(signal, memory).map(|value| value <= 0), true)
}

/// Whether the signals of a packet let the processor pass it now. One that is gone cannot be waited for.
pub(crate) fn passes(packet: &Packet, memory: &impl TenantMemory) -> Result<bool, Away> {
    unless_gone(packet.kind.passes(|signal| value(signal, memory)), true)
}

/// Whether a packet waits for signals that have not fired.
pub(crate) fn is_blocked(packet: &Packet, memory: &impl TenantMemory) -> Result<bool, Away> {
    Ok(packet.kind.waits() && !passes(packet, memory)?)
}
