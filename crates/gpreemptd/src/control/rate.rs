//! Rate limits by user.

use std::collections::HashMap;

use gpreempt_core::Nanos;

/// Buckets kept before full ones, which equal no bucket, are dropped.
const MOST_BUCKETS: usize = 1024;

/// A burst, and then a number per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) per_second: u64,
    pub(super) burst: u64,
}

/// A bucket of tokens for each user.
#[derive(Debug)]
pub(super) struct Limiter {
    rate: Rate,
    buckets: HashMap<u32, Bucket>,
}

/// When the bucket of a user is full again: the one number that says how much is left.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full_at: Nanos,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Limiter {
        Limiter { rate, buckets: HashMap::new() }
    }

    /// Takes a token of this user; returns whether there was one.
    pub(super) fn take(&mut self, uid: u32, now: Nanos) -> bool {
        let token = Nanos(1_000_000_000 / self.rate.per_second.max(1));
        if self.buckets.len() >= MOST_BUCKETS {
            self.buckets.retain(|_, bucket| bucket.full_at > now);
        }
        let bucket = self.buckets.entry(uid).or_insert(Bucket { full_at: now });
        let full_at = bucket.full_at.max(now).plus(token);
        let allowed = full_at.since(now) <= token.times(self.rate.burst);
        if allowed {
            bucket.full_at = full_at;
        }
        allowed
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate { per_second: 50, burst: 100 };

    #[test]
    fn a_burst_then_the_rate_and_users_do_not_share() {
        let mut limiter = Limiter::new(RATE);
        let start = Nanos::from_secs(5);
        assert_eq!((0..300).filter(|_| limiter.take(1000, start)).count(), 100);
        assert!(limiter.take(1001, start));
        let later = start.plus(Nanos::from_secs(1));
        assert_eq!((0..300).filter(|_| limiter.take(1000, later)).count(), 50);
    }

    #[test]
    fn users_who_ask_no_more_are_forgotten() {
        let mut limiter = Limiter::new(RATE);
        for uid in 0..10 * MOST_BUCKETS as u32 {
            assert!(limiter.take(uid, Nanos::from_secs(u64::from(uid))));
        }
        assert!(limiter.buckets.len() <= MOST_BUCKETS, "{}", limiter.buckets.len());
    }

    proptest! {
        #[test]
        fn in_any_window_at_most_burst_and_rate_pass(steps in prop::collection::vec(0u64..60_000_000, 1..600)) {
            let mut limiter = Limiter::new(RATE);
            let mut now = Nanos::from_secs(1);
            let mut passed: Vec<Nanos> = Vec::new();
            for step in steps {
                now = now.plus(Nanos(step));
                if limiter.take(7, now) {
                    passed.push(now);
                }
            }
            for (index, from) in passed.iter().enumerate() {
                for (count, to) in passed[index..].iter().enumerate() {
                    let allowed = RATE.burst + to.since(*from).0 * RATE.per_second / 1_000_000_000 + 1;
                    prop_assert!(count as u64 <= allowed);
                }
            }
        }
    }
}
