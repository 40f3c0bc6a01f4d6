//! No priorities: workgroups in the order of the doorbells, never interrupted.

use super::{Mechanism, MechanismSpec};

pub(super) const SPEC: MechanismSpec = MechanismSpec {
    name: "none",
    about: "no priorities: kernels run in the order in which they were submitted, never interrupted",
    assumes: &[],
    build: |_, _| Box::new(None),
};

struct None;

impl Mechanism for None {}
