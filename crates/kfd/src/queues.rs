//! Lists of queues as `SUSPEND_QUEUES` and `RESUME_QUEUES` take them and give them back.

use kfd_abi::debug::{GRACE_PERIOD_DEFAULT, QueueStatus, grace_period};

use crate::error::{Error, Result};
use crate::id::{Pid, QueueId};

/// Queues that the driver takes at once.
const LIMIT: usize = 1024;

/// Grace period: how long waves may run to their end before they are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace(u32);

impl Grace {
    /// The setting of the hardware: about 64,000 clocks on an MI300X.
    pub const HARDWARE: Grace = Grace(GRACE_PERIOD_DEFAULT);
    /// The shortest there is: 1,000 clocks.
    pub const SHORTEST: Grace = Grace(1);

    /// A number of 1,000 clocks of the gpu. The hardware counts to 255 and takes multiples of 256 for endless, so this
    /// stays within 1 to 255.
    #[must_use]
    pub const fn kiloclocks(count: u8) -> Grace {
        Grace(grace_period(count as u32))
    }

    /// Returns it as the driver takes it.
    #[must_use]
    pub const fn raw(self) -> u32 {
        self.0
    }
}

/// Result of a suspension or resumption for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueResult {
    /// The queue is in the state asked for, whether or not it was before.
    Done,
    /// There is no such queue, it is new (a snapshot clears `QUEUE_NEW`), or it is being destroyed.
    Unknown,
    /// The gpu failed. The driver counts the queue as changed nevertheless.
    Failed,
}

/// Results of one call, in the order of its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch(Vec<(QueueId, QueueResult)>);

impl Batch {
    /// Returns each queue with its result.
    #[must_use]
    pub fn results(&self) -> &[(QueueId, QueueResult)] {
        &self.0
    }

    /// Returns the queues with one result.
    pub fn with(&self, result: QueueResult) -> impl Iterator<Item = QueueId> {
        self.0.iter().filter(move |(_, found)| *found == result).map(|(queue, _)| *queue)
    }

    /// Returns whether every queue is in the state asked for.
    #[must_use]
    pub fn all_done(&self) -> bool {
        self.0.iter().all(|(_, result)| *result == QueueResult::Done)
    }

    /// Reads the list that the driver wrote back.
    pub(crate) fn read(entries: &[QueueStatus]) -> Batch {
        let result = |entry: &QueueStatus| match entry {
            entry if entry.is_error() => QueueResult::Failed,
            entry if entry.is_invalid() => QueueResult::Unknown,
            _ => QueueResult::Done,
        };
        Batch(entries.iter().map(|entry| (QueueId(entry.queue_id()), result(entry))).collect())
    }
}

/// The list for the driver. The two highest bits of an entry are the driver's to set; they are never given.
pub(crate) fn array(pid: Pid, queues: &[QueueId]) -> Result<Vec<QueueStatus>> {
    if queues.len() > LIMIT {
        return Err(Error::TooManyQueues { pid, count: queues.len(), limit: LIMIT });
    }
    Ok(queues.iter().map(|queue| QueueStatus(QueueStatus(queue.0).queue_id())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_gets_the_result_of_its_bits() {
        let (error, invalid) = (QueueStatus::ERROR, QueueStatus::INVALID);
        let batch = Batch::read(&[3, 4 | invalid, 5 | error, 6 | error | invalid].map(QueueStatus));
        let results = [QueueResult::Done, QueueResult::Unknown, QueueResult::Failed, QueueResult::Failed];
        let expected: Vec<_> = [3, 4, 5, 6].map(QueueId).into_iter().zip(results).collect();
        assert_eq!(batch.results(), expected);
        assert!(!batch.all_done());
        assert!(batch.with(QueueResult::Failed).eq([QueueId(5), QueueId(6)]));
        assert!(Batch::read(&[QueueStatus(9)]).all_done() && Batch::default().all_done());
    }

    #[test]
    fn a_list_that_came_back_can_be_given_again() {
        let back = Batch::read(&[QueueStatus(7 | QueueStatus::ERROR)]);
        let queues: Vec<QueueId> = back.results().iter().map(|(queue, _)| *queue).collect();
        assert_eq!(array(Pid(1), &queues).unwrap(), [QueueStatus(7)]);
    }

    #[test]
    fn more_queues_than_the_driver_takes_are_refused_here() {
        let many: Vec<QueueId> = (0..1025).map(QueueId).collect();
        let said = array(Pid(5), &many).unwrap_err().to_string();
        assert_eq!(said, "1025 queues of process 5 in one call; the driver takes 1024");
        assert_eq!(array(Pid(5), &many[..1024]).unwrap().len(), 1024);
    }

    #[test]
    fn no_grace_period_is_endless() {
        assert!((0..=255).all(|count| (1..=255).contains(&Grace::kiloclocks(count).raw())));
        assert_eq!(Grace::HARDWARE.raw(), u32::MAX);
    }
}
