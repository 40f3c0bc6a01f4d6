//! The numbers of a profile in the units of the engine, and the resources of a workgroup.
//!
//! A gpu is one pool: the per-CU numbers times the CUs. Fragmentation between CUs is not modelled, nor is the
//! allocation granularity of registers; both would make a full gpu slightly less full for every mechanism alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpreempt_core::Nanos;

use crate::profile::{Profile, Sourced};
use crate::workload::Kernel;

/// Returns a profile's microseconds as a duration. Profiles are validated when they are read; NaN becomes zero.
#[must_use]
pub fn micros(number: &Sourced) -> Nanos {
    // A float cast saturates, and NaN becomes zero.
    Nanos((number.value * 1_000.0).round() as u64)
}

/// Returns the number of workgroups of a kernel that fill a device.
#[must_use]
pub fn full_gpu(profile: &Profile, kernel: &Kernel) -> u32 {
    Device::new(profile).shape(kernel).capacity
}

fn whole(number: &Sourced) -> u64 {
    number.value.round() as u64
}

/// Resources that a workgroup occupies, or that a gpu has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) workgroups: u64,
    pub(super) waves: u64,
    vgpr_bytes: u64,
    lds_bytes: u64,
}

impl Resources {
    /// Returns how many of `wanted` workgroups fit now, each of which needs `each`.
    #[inline]
    pub(super) fn fit(&self, each: &Resources, wanted: u32) -> u32 {
        let n = u64::from(wanted);
        if n <= self.workgroups
            && each.waves * n <= self.waves
            && each.vgpr_bytes * n <= self.vgpr_bytes
            && each.lds_bytes * n <= self.lds_bytes
        {
            return wanted;
        }
        // Usually there is no room at all, and divisions are slow.
        if self.workgroups == 0
            || each.waves > self.waves
            || each.vgpr_bytes > self.vgpr_bytes
            || each.lds_bytes > self.lds_bytes
        {
            return 0;
        }
        let room = |free: u64, each: u64| free.checked_div(each).unwrap_or(u64::MAX);
        let n = n
            .min(self.workgroups)
            .min(room(self.waves, each.waves))
            .min(room(self.vgpr_bytes, each.vgpr_bytes))
            .min(room(self.lds_bytes, each.lds_bytes));
        // Not more than `wanted`, which is a u32.
        n as u32
    }

    /// Takes the resources of `n` workgroups that fit.
    #[inline]
    pub(super) fn take(&mut self, each: &Resources, n: u32) {
        let n = u64::from(n);
        debug_assert!(
            n <= self.workgroups
                && each.waves * n <= self.waves
                && each.vgpr_bytes * n <= self.vgpr_bytes
                && each.lds_bytes * n <= self.lds_bytes,
            "more workgroups dispatched than fit"
        );
        self.workgroups -= n;
        self.waves -= each.waves * n;
        self.vgpr_bytes -= each.vgpr_bytes * n;
        self.lds_bytes -= each.lds_bytes * n;
    }

    /// Returns the resources of `n` workgroups.
    #[inline]
    pub(super) fn give(&mut self, each: &Resources, n: u32) {
        let n = u64::from(n);
        self.workgroups += n;
        self.waves += each.waves * n;
        self.vgpr_bytes += each.vgpr_bytes * n;
        self.lds_bytes += each.lds_bytes * n;
    }

    fn at_most(self, limit: &Resources) -> Resources {
        Resources {
            workgroups: self.workgroups.min(limit.workgroups),
            waves: self.waves.min(limit.waves),
            vgpr_bytes: self.vgpr_bytes.min(limit.vgpr_bytes),
            lds_bytes: self.lds_bytes.min(limit.lds_bytes),
        }
    }
}

/// A kernel as the dispatcher sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) workgroups: u32,
    pub(super) duration: Nanos,
    pub(super) each: Resources,
    /// Number of workgroups that fit on an empty gpu.
    pub(super) capacity: u32,
    /// Bytes of one workgroup in the save area.
    pub(super) save_bytes: u64,
    pub(super) collective: bool,
}

/// The shapes of all kernels, made once for each list of kernels: tasks of one model share theirs, and a file of a few
/// lines can name a long model many times.
#[derive(Debug, Default)]
pub(super) struct ShapeTable {
    shapes: Vec<Shape>,
    /// Index of the first shape of a list, by the list's address.
    begins: BTreeMap<*const Kernel, usize>,
}

impl ShapeTable {
    /// Returns the index of the first of a list's shapes; the others follow it.
    pub(super) fn begin_of(&mut self, kernels: &Arc<[Kernel]>, device: &Device) -> usize {
        let ShapeTable { shapes, begins } = self;
        *begins.entry(Arc::as_ptr(kernels).cast()).or_insert_with(|| {
            let begin = shapes.len();
            shapes.extend(kernels.iter().map(|kernel| device.shape(kernel)));
            begin
        })
    }

    pub(super) fn into_shapes(self) -> Vec<Shape> {
        self.shapes
    }
}

/// The numbers of a profile.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) total: Resources,
    pub(super) hqds: usize,
    pub(super) vmids: usize,
    pub(super) quantum: Nanos,
    pub(super) fetch: Nanos,
    pub(super) firmware: Nanos,
    pub(super) grace: Nanos,
    pub(super) reset: Nanos,
    pub(super) submit: Nanos,
    vram_bytes_per_ns: f64,
    host_bytes_per_ns: f64,
    wave_overhead_bytes: u64,
}

impl Device {
    pub(super) fn new(profile: &Profile) -> Device {
        let compute = &profile.compute;
        let cus = whole(&compute.cus).max(1);
        Device {
            total: Resources {
                workgroups: whole(&compute.workgroups_per_cu).max(1) * cus,
                waves: whole(&compute.waves_per_cu).max(1) * cus,
                vgpr_bytes: whole(&compute.vgpr_kib_per_cu) * 1024 * cus,
                lds_bytes: whole(&compute.lds_kib_per_cu) * 1024 * cus,
            },
            hqds: whole(&profile.queues.hqds).max(1) as usize,
            vmids: whole(&profile.queues.vmids).max(1) as usize,
            quantum: micros(&profile.queues.quantum_us).max(Nanos(1)),
            fetch: micros(&profile.queues.fetch_us),
            firmware: micros(&profile.cycle.firmware_us),
            grace: micros(&profile.cycle.grace_us),
            reset: micros(&profile.cycle.reset_us),
            submit: micros(&profile.host.submit_us),
            vram_bytes_per_ns: profile.cycle.vram_gb_s.value,
            host_bytes_per_ns: profile.cycle.host_gb_s.value,
            wave_overhead_bytes: whole(&profile.cycle.wave_overhead_bytes),
        }
    }

    /// Returns the time to move `bytes` to or from a save area in VRAM, or in host memory. A gigabyte per second is a
    /// byte per nanosecond.
    pub(super) fn transfer(&self, bytes: u64, in_host: bool) -> Nanos {
        let bandwidth = if in_host { self.host_bytes_per_ns } else { self.vram_bytes_per_ns };
        Nanos((bytes as f64 / bandwidth).round() as u64)
    }

    /// Returns the shape of a kernel. A workgroup larger than the gpu counts as one that fills it, and an empty grid as
    /// one workgroup: otherwise neither would ever complete.
    pub(super) fn shape(&self, kernel: &Kernel) -> Shape {
        let waves = u64::from(kernel.waves.max(1));
        // 64 lanes of 4 bytes.
        let vgpr_bytes = waves * u64::from(kernel.vgprs) * 256;
        let lds_bytes = u64::from(kernel.lds);
        let each = Resources { workgroups: 1, waves, vgpr_bytes, lds_bytes }.at_most(&self.total);
        Shape {
            workgroups: kernel.workgroups.max(1),
            duration: kernel.duration.max(Nanos(1)),
            each,
            capacity: self.total.fit(&each, u32::MAX).max(1),
            save_bytes: vgpr_bytes + waves * self.wave_overhead_bytes + lds_bytes,
            collective: kernel.collective,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of 100 000 kernels named by 256 tasks would otherwise take gigabytes.
    #[test]
    fn tasks_that_share_a_model_share_its_shapes() {
        let device = Device::new(&Profile::load("mi300x-spx").expect("a built-in profile"));
        let kernel = Kernel { workgroups: 1, duration: Nanos(1), waves: 1, vgprs: 1, lds: 0, collective: false };
        let model: Arc<[Kernel]> = vec![kernel.clone(); 100].into();
        let other: Arc<[Kernel]> = vec![kernel; 10].into();
        let mut table = ShapeTable::default();
        let lists = [&model, &other, &Arc::clone(&model), &model];
        assert_eq!(lists.map(|kernels| table.begin_of(kernels, &device)), [0, 100, 0, 0]);
        assert_eq!(table.into_shapes().len(), 110);
    }
}
