//! Hardware round robin: free slots are dealt out to the mapped queues in turn, and nothing is interrupted.

use super::{Mechanism, MechanismSpec};
use crate::machine::Dispatch;

pub(super) const SPEC: MechanismSpec = MechanismSpec {
    name: "round-robin",
    about: "hardware round robin: queues share the free slots in turn, never interrupted",
    assumes: &["a queue gets a sixteenth of the gpu before it is the next one's turn: estimate"],
    build: |_, _| Box::new(RoundRobin),
};

struct RoundRobin;

impl Mechanism for RoundRobin {
    fn dispatch(&self) -> Dispatch {
        Dispatch::RoundRobin
    }
}
