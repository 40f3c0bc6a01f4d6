//! How often rings are polled: as often as the processor time allowed for it permits.

use gpreempt_core::Nanos;

use crate::config::Watch;

/// Time over which the cost of a look is averaged.
const WINDOW: Nanos = Nanos::from_millis(20);

/// The longest time between two looks; scans come at least so often anyway.
const LONGEST: Nanos = Nanos::from_millis(10);

/// When to look next.
#[derive(Debug)]
pub(super) struct PollPacer {
    next: Nanos,
    period: Nanos,
    window: Nanos,
    looks: u32,
    used: Nanos,
}

impl PollPacer {
    pub(super) fn new() -> PollPacer {
        PollPacer { next: Nanos::NEVER, period: Nanos::ZERO, window: Nanos::ZERO, looks: 0, used: Nanos::ZERO }
    }

    /// When the next look is due; never while nothing is watched.
    pub(super) fn next(&self) -> Nanos {
        self.next
    }

    /// Time between two looks, if anything is watched.
    pub(super) fn period(&self) -> Option<Nanos> {
        (self.next < Nanos::NEVER).then_some(self.period)
    }

    /// Something is to be watched from now on, or nothing any more.
    pub(super) fn watch(&mut self, watched: bool, now: Nanos, config: &Watch) {
        if !watched {
            self.next = Nanos::NEVER;
        } else if self.next == Nanos::NEVER {
            self.period = Nanos::from(config.period).max(self.period);
            self.next = now;
            self.window = now;
            self.looks = 0;
            self.used = processor_time();
        }
    }

    /// A look took place.
    pub(super) fn looked(&mut self, now: Nanos, config: &Watch) {
        self.looks += 1;
        if now.since(self.window) >= WINDOW {
            let used = processor_time();
            let each = used.since(self.used).0 / u64::from(self.looks.max(1));
            self.period = period(each, config);
            (self.window, self.looks, self.used) = (now, 0, used);
        }
        self.next = now.plus(self.period);
    }
}

/// The period at which looks that cost `each` nanoseconds stay within their share.
fn period(each: u64, config: &Watch) -> Nanos {
    let shortest = Nanos::from(config.period);
    if config.fixed || config.spin_core.is_some() {
        return shortest;
    }
    // A float cast saturates; a share of zero means the longest period.
    let affordable = Nanos((each as f64 / config.cpu.max(1e-6)) as u64);
    affordable.max(shortest).min(LONGEST.max(shortest))
}

/// Returns the processor time of this thread.
fn processor_time() -> Nanos {
    Nanos::from(linux_host::clock::thread_cpu())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config() -> Watch {
        Watch { cpu: 0.03, period: Duration::from_micros(50), fixed: false, spin_core: None, ..Watch::default() }
    }

    #[test]
    fn the_period_follows_from_the_cost_within_bounds() {
        assert_eq!(period(9_000, &config()), Nanos::from_micros(300));
        assert_eq!(period(100, &config()), Nanos::from_micros(50));
        assert_eq!(period(10_000_000, &config()), LONGEST);
        assert_eq!(period(10_000_000, &Watch { fixed: true, ..config() }), Nanos::from_micros(50));
    }

    #[test]
    fn nothing_is_due_while_nothing_is_watched() {
        let mut pacer = PollPacer::new();
        assert_eq!((pacer.next(), pacer.period()), (Nanos::NEVER, None));
        pacer.watch(true, Nanos(5), &config());
        assert_eq!(pacer.next(), Nanos(5));
        pacer.looked(Nanos(7), &config());
        assert_eq!(pacer.next(), Nanos(7).plus(Nanos::from_micros(50)));
        pacer.watch(false, Nanos(9), &config());
        assert_eq!(pacer.next(), Nanos::NEVER);
    }
}
