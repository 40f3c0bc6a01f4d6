//! Profiles of devices: one TOML file per device, every number with its source.
//!
//! A number is written `key = { value = 304, source = "..." }`. The unit is part of the key. A source that contains the
//! word "estimate" marks a number that is not published; [`Profile::estimates`] lists those, and the front end repeats
//! them beside every result.

use toml_source::{Document, Source, Table};

use self::NumberRange::{Real, Whole};
use crate::input::{self, Builtin, InputError};

/// The devices that ship with the laboratory.
const BUILTINS: &[Builtin] = &[
    Builtin { name: "mi300x-spx", text: include_str!("../profiles/mi300x-spx.toml") },
    Builtin { name: "mi300x-cpx", text: include_str!("../profiles/mi300x-cpx.toml") },
    Builtin { name: "mi308x", text: include_str!("../profiles/mi308x.toml") },
    Builtin { name: "gv100", text: include_str!("../profiles/gv100.toml") },
];

/// A number and its source. The source contains the word "estimate" if the number is not published.
#[derive(Clone, Debug)]
pub struct Sourced {
    /// The number, in the unit its key names.
    pub value: f64,
    /// Publication, driver source, or "estimate: " and the reasoning.
    pub source: String,
}

/// A device.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name used with `--profile`.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// Execution resources of one gpu.
    pub compute: Compute,
    /// Queue hardware of one gpu.
    pub queues: Queues,
    /// Terms of the cost of one runlist cycle.
    pub cycle: Cycle,
    /// Host-side costs.
    pub host: HostCosts,
}

/// Execution resources of one gpu (a partition, in CPX mode).
#[derive(Clone, Debug)]
pub struct Compute {
    /// Compute units.
    pub cus: Sourced,
    /// Waves a compute unit holds.
    pub waves_per_cu: Sourced,
    /// Vector register file of a compute unit, KiB.
    pub vgpr_kib_per_cu: Sourced,
    /// LDS of a compute unit, KiB.
    pub lds_kib_per_cu: Sourced,
    /// Workgroups a compute unit holds.
    pub workgroups_per_cu: Sourced,
}

/// Queue hardware of one gpu.
#[derive(Clone, Debug)]
pub struct Queues {
    /// Hardware queue slots for user queues.
    pub hqds: Sourced,
    /// Address spaces for user processes.
    pub vmids: Sourced,
    /// How long a process stays mapped when the runlist is over-subscribed, microseconds.
    pub quantum_us: Sourced,
    /// Doorbell to first fetch, microseconds.
    pub fetch_us: Sourced,
}

/// A cycle costs firmware + grace + (bytes of resident waves / bandwidth of where the save area lives), each way.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// Fixed firmware time of one unmap and map, microseconds.
    pub firmware_us: Sourced,
    /// Grace given to running waves before they are saved, microseconds.
    pub grace_us: Sourced,
    /// Save and restore bandwidth with the save area in VRAM, GB/s.
    pub vram_gb_s: Sourced,
    /// The same after the first debug-trap suspend moved the area to host memory, GB/s.
    pub host_gb_s: Sourced,
    /// State per wave beside vector registers and LDS (scalar and hardware registers), bytes.
    pub wave_overhead_bytes: Sourced,
    /// Reset of the compute units by a reset-and-resubmit scheme, microseconds.
    pub reset_us: Sourced,
}

/// Host-side costs.
#[derive(Clone, Debug)]
pub struct HostCosts {
    /// Enqueueing one kernel from user space, microseconds.
    pub submit_us: Sourced,
    /// One driver call, without the cycle it causes, microseconds.
    pub ioctl_us: Sourced,
    /// Waking a sleeping thread of the scheduler, microseconds.
    pub wakeup_us: Sourced,
    /// One call that switches sets of queues, without the cycle it causes, microseconds.
    pub switch_us: Sourced,
    /// From an event to the decision of a scheduler in the kernel: its wake-up, a look and the decision, microseconds.
    pub kernel_us: Sourced,
}

impl Sourced {
    /// Returns whether the number is not published.
    #[must_use]
    pub fn is_estimate(&self) -> bool {
        self.source.to_lowercase().contains("estimate")
    }
}

impl Profile {
    /// Returns the devices that ship with the laboratory, as files to copy and edit.
    #[must_use]
    pub fn builtins() -> &'static [Builtin] {
        BUILTINS
    }

    /// Loads a built-in profile by name, or a TOML file.
    ///
    /// # Errors
    /// If there is neither, or the file has mistakes; all of them are listed.
    pub fn load(name: &str) -> Result<Profile, InputError> {
        Profile::parse(&input::open("profile", name, BUILTINS)?)
    }

    fn parse(source: &Source) -> Result<Profile, InputError> {
        let document = Document::parse(source)?;
        let root = document.root(&["name", "about", "compute", "queues", "cycle", "host"]);
        let profile = Profile {
            name: root.required("name").words("a name").unwrap_or_default().to_string(),
            about: root.required("about").words("a sentence").unwrap_or_default().to_string(),
            compute: Compute::read(&root),
            queues: Queues::read(&root),
            cycle: Cycle::read(&root),
            host: HostCosts::read(&root),
        };
        Ok(document.finish(profile)?)
    }

    /// Returns the keys of the numbers that are estimates.
    #[must_use]
    pub fn estimates(&self) -> Vec<&'static str> {
        self.numbers().into_iter().filter(|(_, number)| number.is_estimate()).map(|(key, _)| key).collect()
    }

    /// Returns all numbers with their keys.
    fn numbers(&self) -> [(&'static str, &Sourced); 20] {
        let Profile { compute, queues, cycle, host, .. } = self;
        [
            ("compute.cus", &compute.cus),
            ("compute.waves_per_cu", &compute.waves_per_cu),
            ("compute.vgpr_kib_per_cu", &compute.vgpr_kib_per_cu),
            ("compute.lds_kib_per_cu", &compute.lds_kib_per_cu),
            ("compute.workgroups_per_cu", &compute.workgroups_per_cu),
            ("queues.hqds", &queues.hqds),
            ("queues.vmids", &queues.vmids),
            ("queues.quantum_us", &queues.quantum_us),
            ("queues.fetch_us", &queues.fetch_us),
            ("cycle.firmware_us", &cycle.firmware_us),
            ("cycle.grace_us", &cycle.grace_us),
            ("cycle.vram_gb_s", &cycle.vram_gb_s),
            ("cycle.host_gb_s", &cycle.host_gb_s),
            ("cycle.wave_overhead_bytes", &cycle.wave_overhead_bytes),
            ("cycle.reset_us", &cycle.reset_us),
            ("host.submit_us", &host.submit_us),
            ("host.ioctl_us", &host.ioctl_us),
            ("host.wakeup_us", &host.wakeup_us),
            ("host.switch_us", &host.switch_us),
            ("host.kernel_us", &host.kernel_us),
        ]
    }
}

impl Compute {
    fn read(root: &Table<'_>) -> Compute {
        let table =
            root.section("compute", &["cus", "waves_per_cu", "vgpr_kib_per_cu", "lds_kib_per_cu", "workgroups_per_cu"]);
        let read = |key, range| sourced(&table, key, range);
        Compute {
            cus: read("cus", Whole(1, 4096)),
            waves_per_cu: read("waves_per_cu", Whole(1, 256)),
            vgpr_kib_per_cu: read("vgpr_kib_per_cu", Whole(1, 4096)),
            lds_kib_per_cu: read("lds_kib_per_cu", Whole(1, 1024)),
            workgroups_per_cu: read("workgroups_per_cu", Whole(1, 256)),
        }
    }
}

impl Queues {
    fn read(root: &Table<'_>) -> Queues {
        let table = root.section("queues", &["hqds", "vmids", "quantum_us", "fetch_us"]);
        let read = |key, range| sourced(&table, key, range);
        Queues {
            hqds: read("hqds", Whole(1, 4096)),
            vmids: read("vmids", Whole(1, 256)),
            quantum_us: read("quantum_us", Real(1.0, 1e7)),
            fetch_us: read("fetch_us", Real(0.0, 1e4)),
        }
    }
}

impl Cycle {
    fn read(root: &Table<'_>) -> Cycle {
        let table = root.section(
            "cycle",
            &["firmware_us", "grace_us", "vram_gb_s", "host_gb_s", "wave_overhead_bytes", "reset_us"],
        );
        let read = |key, range| sourced(&table, key, range);
        Cycle {
            firmware_us: read("firmware_us", Real(0.0, 1e6)),
            grace_us: read("grace_us", Real(0.0, 1e6)),
            vram_gb_s: read("vram_gb_s", Real(0.01, 1e6)),
            host_gb_s: read("host_gb_s", Real(0.01, 1e6)),
            wave_overhead_bytes: read("wave_overhead_bytes", Whole(0, 1 << 20)),
            reset_us: read("reset_us", Real(0.0, 1e6)),
        }
    }
}

impl HostCosts {
    fn read(root: &Table<'_>) -> HostCosts {
        let table = root.section("host", &["submit_us", "ioctl_us", "wakeup_us", "switch_us", "kernel_us"]);
        let read = |key, range| sourced(&table, key, range);
        HostCosts {
            submit_us: read("submit_us", Real(0.0, 1e5)),
            ioctl_us: read("ioctl_us", Real(0.0, 1e5)),
            wakeup_us: read("wakeup_us", Real(0.0, 1e5)),
            switch_us: read("switch_us", Real(0.0, 1e5)),
            kernel_us: read("kernel_us", Real(0.0, 1e5)),
        }
    }
}

/// What a number may be, both ends included.
#[derive(Clone, Copy)]
enum NumberRange {
    Whole(u32, u32),
    Real(f64, f64),
}

/// Reads `key = { value = NUMBER, source = "..." }`.
fn sourced(table: &Table<'_>, key: &str, range: NumberRange) -> Sourced {
    let written = "{ value = NUMBER, source = \"...\" }";
    let Some(number) = table.required(key).inline_table(&["value", "source"], written) else {
        return Sourced { value: 0.0, source: String::new() };
    };
    let value = number.required("value");
    Sourced {
        value: match range {
            Whole(low, high) => value.whole(low..=high).map(f64::from),
            Real(low, high) => value.number(low..=high, ""),
        }
        .unwrap_or_default(),
        source: number
            .required("source")
            .words("a publication, a driver source, or \"estimate: \" and the reasoning")
            .unwrap_or_default()
            .to_string(),
    }
}
