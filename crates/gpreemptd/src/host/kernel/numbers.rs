//! Numbers of jobs in the kernel: the same for the same name in every daemon, so that a restarted one continues what
//! an earlier one began.

use std::collections::BTreeMap;

/// Names that are kept although their job is gone, for events that are still to come.
const MOST: usize = 4096;

/// Which job has which number.
#[derive(Debug, Default)]
pub(super) struct JobNumbers {
    numbers: BTreeMap<String, u64>,
    names: BTreeMap<u64, String>,
}

impl JobNumbers {
    /// Returns the number of a job. It follows from the name, unless another job has that number: then it is the next
    /// that is free.
    pub(super) fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let mut number = hash(name);
        while number == 0 || self.names.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        self.numbers.insert(name.to_owned(), number);
        self.names.insert(number, name.to_owned());
        number
    }

    /// Returns the job that has a number, or had it.
    pub(super) fn name(&self, number: u64) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }

    /// Forgets jobs that are gone, when there are many.
    pub(super) fn keep_only<J>(&mut self, jobs: &BTreeMap<String, J>) {
        if self.names.len() > MOST {
            self.numbers.retain(|name, _| jobs.contains_key(name));
            self.names.retain(|_, name| jobs.contains_key(name));
        }
    }
}

/// FNV-1a, which is the same in every release of every compiler.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_same_number_in_every_daemon() {
        let (mut first, mut second) = (JobNumbers::default(), JobNumbers::default());
        second.number("another");
        assert_eq!(first.number("user:alice"), second.number("user:alice"));
        assert_eq!(first.number("a"), 0xaf63_dc4c_8601_ec8c, "FNV-1a");
        assert_eq!(first.name(first.numbers["a"]), Some("a"));
    }

    #[test]
    fn two_names_never_share_a_number_and_none_is_zero() {
        let mut numbers = JobNumbers::default();
        let taken = hash("b");
        numbers.names.insert(taken, "a".into());
        assert_eq!(numbers.number("b"), taken.wrapping_add(1));
        numbers.names.insert(hash("c"), "x".into());
        (0..3).for_each(|step| drop(numbers.names.insert(hash("c").wrapping_add(step), "x".into())));
        assert_eq!(numbers.number("c"), hash("c").wrapping_add(3));
        assert!(numbers.numbers.values().all(|number| *number != 0));
    }

    #[test]
    fn jobs_that_are_gone_are_forgotten_when_there_are_many() {
        let mut numbers = JobNumbers::default();
        for job in 0..=MOST {
            numbers.number(&format!("pid-{job}"));
        }
        let living = BTreeMap::from([("pid-7".to_owned(), ())]);
        let number = numbers.number("pid-7");
        numbers.keep_only(&living);
        assert_eq!((numbers.names.len(), numbers.name(number)), (1, Some("pid-7")));
    }
}
