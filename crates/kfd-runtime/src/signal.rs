//! Signals: numbers in memory that packets decrement; reaching 0 wakes the waiting thread.

use std::hint;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kfd_abi::hsa::{AmdSignal, SignalKind};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::event::SignalEvent;
use crate::memory::{Buffer, GpuAddr, Placement};

/// How long to look before sleeping. Most packets end sooner than a sleep and a wake take.
const SPIN: Duration = Duration::from_micros(50);
/// Longest sleep before looking again. The event alone would do; this bounds the harm of one that was lost.
const NAP: Duration = Duration::from_millis(100);

/// A signal: done when its value is 0.
#[derive(Debug)]
pub struct Signal {
    device: Device,
    memory: Buffer,
    event: SignalEvent,
}

impl Signal {
    /// Creates a signal that `value` packets will decrement.
    ///
    /// # Errors
    ///
    /// If the driver has no memory or no event left.
    pub fn new(device: &Device, value: i64) -> Result<Signal> {
        let mut memory = device.allocate(size_of::<AmdSignal>(), Placement::Uncached)?;
        let event = SignalEvent::create(device.events())?;
        let record = AmdSignal {
            kind: SignalKind::USER,
            value,
            event_mailbox_ptr: event.mailbox().0,
            event_id: event.id(),
            ..AmdSignal::default()
        };
        memory.put(0, &record)?;
        Ok(Signal { device: device.clone(), memory, event })
    }

    /// Returns the address by which packets name the signal.
    #[must_use]
    pub fn handle(&self) -> GpuAddr {
        self.memory.address()
    }

    /// Returns the address of the value.
    pub(crate) fn value_address(&self) -> GpuAddr {
        self.handle().plus(AmdSignal::VALUE)
    }

    pub(crate) fn event(&self) -> &SignalEvent {
        &self.event
    }

    /// Reads the value. What packets wrote before they counted it down is visible afterwards.
    ///
    /// # Errors
    ///
    /// Never in practice: the value lies inside the signal.
    pub fn value(&self) -> Result<i64> {
        Ok(self.memory.atomic_signed(AmdSignal::VALUE as usize)?.load(Ordering::Acquire))
    }

    /// Sets the value for the next use. No packet that names the signal may be under way.
    ///
    /// # Errors
    ///
    /// Never in practice: the value lies inside the signal.
    pub fn set(&self, value: i64) -> Result<()> {
        self.memory.atomic_signed(AmdSignal::VALUE as usize)?.store(value, Ordering::Release);
        Ok(())
    }

    /// Waits until the value is 0, spinning briefly and then asleep. `watched` are signals that report errors: one that
    /// is not 0 ends the wait.
    ///
    /// # Errors
    ///
    /// If the gpu faults or is reset, a watched signal reports, or the time is up.
    pub(crate) fn wait(&self, watched: &[&Signal], limit: Duration) -> Result<()> {
        let begin = Instant::now();
        loop {
            if self.value()? <= 0 {
                return Ok(());
            }
            for signal in watched {
                match signal.value()? {
                    0 => {}
                    code => return Err(Error::Queue { code: code.cast_unsigned() }),
                }
            }
            let waited = begin.elapsed();
            if waited >= limit {
                return Err(Error::Timeout { limit });
            }
            if waited < SPIN {
                hint::spin_loop();
                continue;
            }
            let mut events = vec![&self.event];
            events.extend(watched.iter().map(|signal| &signal.event));
            self.device.events().wait(&events, NAP.min(limit.saturating_sub(waited)))?;
        }
    }
}
