//! The circuit breaker of a gpu: nothing is stopped for a while after the driver failed repeatedly, its calls were
//! slow, or protected bursts took no less time than control bursts.

use std::collections::VecDeque;
use std::time::Duration;

use gpreempt_core::Nanos;

use crate::config;

/// Bursts of each kind before they are compared.
const ENOUGH: u64 = 20;

/// Why the breaker opened, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trip {
    pub(super) reason: String,
    pub(super) pause: Nanos,
}

/// The breaker of one gpu.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: VecDeque<Nanos>,
    slow: VecDeque<Nanos>,
    protected: Mean,
    control: Mean,
    /// Bursts since the last control burst.
    bursts: u32,
    open: Option<Open>,
    /// Doubles with each trip, and starts anew after a good time.
    pause: Nanos,
    /// When the last pause ended.
    closed_at: Nanos,
}

#[derive(Clone, Debug)]
struct Open {
    reason: String,
    until: Nanos,
}

/// A mean that forgets slowly.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: u64,
    value: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.value += (value - self.value) / self.count.min(200) as f64;
    }
}

impl Breaker {
    /// Returns why the breaker is open, and until when.
    pub(super) fn open(&self) -> Option<(&str, Nanos)> {
        self.open.as_ref().map(|open| (open.reason.as_str(), open.until))
    }

    /// Notes a failure of the driver.
    pub(super) fn failed(&mut self, now: Nanos, config: &config::Breaker) -> Option<Trip> {
        if self.open.is_some() {
            // What was stopped is being let go, and the reason is known.
            return None;
        }
        let count = note(&mut self.failures, now, config.window);
        let tripped = config.failures > 0 && count >= config.failures;
        tripped.then(|| self.trip(format!("{count} failures of the driver in {:?}", config.window), now, config))
    }

    /// Notes that the driver answered after `took`.
    pub(super) fn took(&mut self, took: Nanos, now: Nanos, config: &config::Breaker) -> Option<Trip> {
        if took <= Nanos::from(config.slow_after) || self.open.is_some() {
            return None;
        }
        let count = note(&mut self.slow, now, config.window);
        let tripped = config.slow > 0 && count >= config.slow;
        let reason = || format!("{count} calls slower than {:?} in {:?}", config.slow_after, config.window);
        tripped.then(|| self.trip(reason(), now, config))
    }

    /// Returns whether the burst that begins now is to be a control burst: one in `control_one_in`.
    pub(super) fn choose_control(&mut self, config: &config::Breaker) -> bool {
        if config.control_one_in == 0 {
            return false;
        }
        self.bursts += 1;
        let control = self.bursts >= config.control_one_in;
        if control {
            self.bursts = 0;
        }
        control
    }

    /// Notes that a burst took `length`, from the poll that saw it to its end.
    pub(super) fn burst(
        &mut self,
        length: Nanos,
        is_control: bool,
        now: Nanos,
        config: &config::Breaker,
    ) -> Option<Trip> {
        let kind = if is_control { &mut self.control } else { &mut self.protected };
        kind.add(length.0 as f64);
        let (protected, control) = (self.protected, self.control);
        if !is_control || protected.count < ENOUGH || control.count < ENOUGH || protected.value < control.value {
            return None;
        }
        let reason = format!(
            "protected bursts take {:.2} ms, control bursts {:.2} ms",
            protected.value / 1e6,
            control.value / 1e6
        );
        Some(self.trip(reason, now, config))
    }

    /// Closes the breaker if its time is over, and returns whether it did.
    pub(super) fn retry(&mut self, now: Nanos) -> bool {
        let over = self.open.as_ref().is_some_and(|open| now >= open.until);
        if over {
            self.open = None;
            self.closed_at = now;
        }
        over
    }

    /// Makes the next pause a short one again if nothing went wrong for long enough.
    pub(super) fn quiet(&mut self, now: Nanos, config: &config::Breaker) {
        let window = Nanos::from(config.longest);
        if self.open.is_none() && now.since(self.closed_at) > window {
            self.pause = Nanos::ZERO;
        }
    }

    fn trip(&mut self, reason: String, now: Nanos, config: &config::Breaker) -> Trip {
        self.pause = if self.pause == Nanos::ZERO { Nanos::from(config.pause) } else { self.pause.times(2) };
        self.pause = self.pause.min(Nanos::from(config.longest));
        self.failures.clear();
        self.slow.clear();
        self.protected = Mean::default();
        self.control = Mean::default();
        self.open = Some(Open { reason: reason.clone(), until: now.plus(self.pause) });
        Trip { reason, pause: self.pause }
    }
}

fn note(times: &mut VecDeque<Nanos>, now: Nanos, window: Duration) -> u32 {
    times.push_back(now);
    while times.front().is_some_and(|&first| now.since(first) > Nanos::from(window)) {
        times.pop_front();
    }
    u32::try_from(times.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> config::Breaker {
        config::Breaker {
            failures: 3,
            slow: 2,
            slow_after: Duration::from_millis(50),
            window: Duration::from_secs(10),
            pause: Duration::from_secs(10),
            longest: Duration::from_secs(300),
            control_one_in: 100,
        }
    }

    fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn failures_close_together_trip_and_failures_far_apart_do_not() {
        let (mut breaker, config) = (Breaker::default(), config());
        assert!((0..10).all(|turn| breaker.failed(at(turn * 6), &config).is_none()));
        assert!(breaker.failed(at(55), &config).is_some_and(|trip| trip.reason.starts_with("3 failures")));
        assert!(breaker.open().is_some());
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (mut breaker, config) = (Breaker::default(), config());
        let pauses: Vec<u64> = (0..7)
            .filter_map(|turn| {
                let trips = (0..3).filter_map(|_| breaker.failed(at(turn * 1000), &config)).last();
                // While it is open, what was stopped is let go, and that may fail or be slow as well.
                assert!((0..9).all(|_| breaker.failed(at(turn * 1000), &config).is_none()));
                assert!((0..9).all(|_| breaker.took(Nanos::from_secs(1), at(turn * 1000), &config).is_none()));
                assert!(turn == 6 || breaker.retry(at(turn * 1000 + 400)));
                trips.map(|trip| trip.pause.0 / 1_000_000_000)
            })
            .collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
        assert!(!breaker.retry(at(6001)) && breaker.retry(at(6301)) && breaker.open().is_none());
    }

    #[test]
    fn only_a_long_good_time_makes_the_next_pause_a_short_one() {
        let (mut breaker, config) = (Breaker::default(), config());
        let mut pause_at = |turn| {
            breaker.quiet(at(turn), &config);
            let trip = (0..3).filter_map(|_| breaker.failed(at(turn), &config)).last();
            let pause = trip.map_or(Nanos::ZERO, |trip| trip.pause);
            assert!(breaker.retry(at(turn).plus(pause)));
            pause
        };
        assert_eq!([1000, 1100, 1200, 2000].map(&mut pause_at), [10, 20, 40, 10].map(at));
    }

    #[test]
    fn slow_calls_trip_and_quick_ones_never() {
        let (mut breaker, config) = (Breaker::default(), config());
        assert!((0..100).all(|_| breaker.took(Nanos::from_millis(50), at(1), &config).is_none()));
        assert!(breaker.took(Nanos::from_millis(51), at(1), &config).is_none());
        assert!(breaker.took(Nanos::from_millis(60), at(2), &config).is_some());
    }

    #[test]
    fn protection_that_does_not_help_is_given_up_and_one_that_does_is_kept() {
        let config = config();
        for (protected, trips) in [(10, false), (60, true)] {
            let mut breaker = Breaker::default();
            let mut tripped = false;
            for turn in 0..5000 {
                let control = breaker.choose_control(&config);
                let length = Nanos::from_millis(if control { 50 } else { protected });
                tripped |= breaker.burst(length, control, at(turn), &config).is_some();
            }
            assert_eq!(tripped, trips, "{protected} ms");
        }
    }
}
