//! One simulated run.

use crate::machine::Machine;
use crate::mechanism::MechanismSpec;
use crate::outcome::RunOutcome;
use crate::profile::Profile;
use crate::workload::Workload;

/// Runs a workload on a device under a mechanism. `record` keeps the trace.
#[must_use]
pub fn run(profile: &Profile, workload: &Workload, mechanism: &MechanismSpec, seed: u64, record: bool) -> RunOutcome {
    let mut built = (mechanism.build)(profile, workload);
    Machine::new(profile, workload, seed, record).run(built.as_mut(), mechanism.name)
}
