//! Bursts of work: which began and ended with the present polls, and which are control bursts.
//!
//! A control burst is one that is not protected on purpose: nothing is stopped for it, to see what protection is worth.

use std::collections::BTreeMap;

use gpreempt_core::{GpuIndex, Nanos};

use super::world::TenantKey;

/// A burst without end is protected after this time. One that takes longer needs no comparison.
const CONTROL_LONGEST: Nanos = Nanos::from_millis(250);

/// What the polls found since [`BurstLog::take`].
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// Tenants that got work, with the last poll that did not show it.
    pub(super) risen: Vec<(TenantKey, Nanos)>,
    /// Tenants whose work ended.
    pub(super) fallen: Vec<TenantKey>,
}

#[derive(Clone, Copy, Debug)]
struct Control {
    tenant: TenantKey,
    until: Nanos,
}

/// Bursts in progress, as far as they are accounted for.
#[derive(Debug, Default)]
pub(super) struct BurstLog {
    edges: Edges,
    /// At most one per gpu.
    controls: BTreeMap<GpuIndex, Control>,
}

impl BurstLog {
    /// Notes that a tenant got work after the poll at `polled_before`.
    pub(super) fn note_begin(&mut self, tenant: TenantKey, polled_before: Nanos) {
        self.edges.risen.push((tenant, polled_before));
    }

    /// Notes that the work of a tenant ended.
    pub(super) fn note_end(&mut self, tenant: TenantKey) {
        self.edges.fallen.push(tenant);
    }

    /// Returns what was noted since the last call.
    pub(super) fn take(&mut self) -> Edges {
        std::mem::take(&mut self.edges)
    }

    /// Returns the tenant of the control burst on a gpu.
    pub(super) fn control_on(&self, gpu: GpuIndex) -> Option<TenantKey> {
        self.controls.get(&gpu).map(|control| control.tenant)
    }

    /// Makes the burst of a tenant the control burst of its gpu, and returns when that ends at the latest.
    pub(super) fn begin_control(&mut self, gpu: GpuIndex, tenant: TenantKey, now: Nanos) -> Nanos {
        let until = now.plus(CONTROL_LONGEST);
        self.controls.insert(gpu, Control { tenant, until });
        until
    }

    /// Ends the control burst of a gpu if it is that of this tenant, and returns whether it was.
    pub(super) fn end_control(&mut self, gpu: GpuIndex, tenant: TenantKey) -> bool {
        let is_its = self.control_on(gpu) == Some(tenant);
        if is_its {
            self.controls.remove(&gpu);
        }
        is_its
    }

    /// Ends control bursts that have lasted too long, and returns their tenants.
    pub(super) fn end_long_controls(&mut self, now: Nanos) -> Vec<TenantKey> {
        let over: Vec<GpuIndex> =
            self.controls.iter().filter(|(_, control)| now >= control.until).map(|(gpu, _)| *gpu).collect();
        over.into_iter().filter_map(|gpu| self.controls.remove(&gpu)).map(|control| control.tenant).collect()
    }

    /// Returns when control bursts end at the latest.
    pub(super) fn control_ends(&self) -> impl Iterator<Item = Nanos> {
        self.controls.values().map(|control| control.until)
    }
}

#[cfg(test)]
mod tests {
    use kfd::Pid;

    use super::*;

    #[test]
    fn a_gpu_has_one_control_burst_that_ends_with_its_tenant_or_in_time() {
        let [gpu, other] = [0, 1].map(|index| GpuIndex::new(index).unwrap());
        let [first, second] = [1, 2].map(|pid| TenantKey { pid: Pid(pid), gpu: kfd::GpuId(7) });
        let mut log = BurstLog::default();
        let until = log.begin_control(gpu, first, Nanos(10));
        log.begin_control(other, second, Nanos(20));
        assert!(!log.end_control(gpu, second) && log.end_control(other, second));
        assert_eq!((log.control_on(gpu), log.control_on(other)), (Some(first), None));
        assert_eq!(log.control_ends().collect::<Vec<_>>(), [until]);
        assert_eq!(log.end_long_controls(Nanos(until.0 - 1)), []);
        assert_eq!(log.end_long_controls(until), [first]);
        assert_eq!(log.control_on(gpu), None);
    }
}
