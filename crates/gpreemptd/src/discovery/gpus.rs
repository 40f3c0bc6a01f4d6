//! The gpus of the machine, read again when the driver's topology changes.

use std::time::{Duration, Instant};

use kfd::topology;

use super::warn_once::WarnOnce;
use super::{DiscoveredGpu, DiscoveryEvent};

/// Time between two looks at the topology.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Gpus {
    generation: Option<u64>,
    last: Option<Vec<DiscoveredGpu>>,
    due: Option<Instant>,
}

impl Gpus {
    /// The gpus, if they changed or are told for the first time.
    pub(super) fn look(&mut self, now: Instant, warnings: &mut WarnOnce) -> Option<DiscoveryEvent> {
        if self.due.is_some_and(|due| now < due) {
            return None;
        }
        self.due = Some(now + PERIOD);
        match self.read() {
            Ok(None) => None,
            Ok(Some(gpus)) if self.last.as_ref() == Some(&gpus) => None,
            Ok(Some(gpus)) => {
                self.last = Some(gpus.clone());
                Some(DiscoveryEvent::Gpus(gpus))
            }
            Err(error) => {
                warnings.warn(error.to_string());
                self.generation = None;
                // Without a driver there is none, which has to be said once, too.
                self.last.is_none().then(|| {
                    self.last = Some(Vec::new());
                    DiscoveryEvent::Gpus(Vec::new())
                })
            }
        }
    }

    fn read(&mut self) -> kfd::Result<Option<Vec<DiscoveredGpu>>> {
        let generation = topology::generation()?;
        if self.generation == Some(generation) {
            return Ok(None);
        }
        let gpus = topology::gpus()?.into_iter().map(gpu).collect();
        // If it changed while it was read, the next look reads it again.
        self.generation = (topology::generation()? == generation).then_some(generation);
        Ok(Some(gpus))
    }
}

fn gpu(gpu: topology::Gpu) -> DiscoveredGpu {
    DiscoveredGpu {
        id: gpu.id,
        address: gpu.address,
        name: gpu.name,
        unique_id: gpu.unique_id,
        cus: gpu.cus,
        waves_per_cu: gpu.waves_per_cu,
    }
}
