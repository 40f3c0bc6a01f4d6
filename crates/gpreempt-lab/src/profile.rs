//! What the machine is made of: one TOML file per device, every number with its source.
//!
//! A number is written `key = { value = 304, source = "..." }`. The unit is part of the key. A source that contains the
//! word "estimate" says that nobody published the number; [`Profile::estimates`] lists those, and the front end repeats
//! them beside every result.

use serde::Deserialize;

use crate::input::{self, Builtin, Checker, InputError, Text, TomlDocument};

/// The devices that ship with the laboratory.
const BUILTINS: &[Builtin] = &[
    Builtin { name: "mi300x-spx", text: include_str!("../profiles/mi300x-spx.toml") },
    Builtin { name: "mi300x-cpx", text: include_str!("../profiles/mi300x-cpx.toml") },
    Builtin { name: "mi308x", text: include_str!("../profiles/mi308x.toml") },
    Builtin { name: "gv100", text: include_str!("../profiles/gv100.toml") },
];

/// A number and where it comes from. `source` contains the word "estimate" when nobody published it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced {
    /// The number, in the unit its key names.
    pub value: f64,
    /// Publication, driver source, or "estimate: " and the reasoning.
    pub source: String,
}

/// A device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
    pub host: Host,
}

/// Execution resources of one gpu (a partition, in CPX mode).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Enqueueing one kernel from user space, microseconds.
    pub submit_us: Sourced,
    /// One driver call, without the cycle it causes, microseconds.
    pub ioctl_us: Sourced,
    /// Waking a sleeping thread of the scheduler, microseconds.
    pub wakeup_us: Sourced,
}

impl Sourced {
    /// Nobody published it.
    #[must_use]
    pub fn is_estimate(&self) -> bool {
        self.source.to_lowercase().contains("estimate")
    }
}

impl Profile {
    /// The devices that ship with the laboratory, as files to copy and edit.
    #[must_use]
    pub fn builtins() -> &'static [Builtin] {
        BUILTINS
    }

    /// Loads a built-in profile by name, or a TOML file.
    ///
    /// # Errors
    /// When there is neither, or the file has faults; all of them are listed.
    pub fn load(name: &str) -> Result<Profile, InputError> {
        Profile::parse(&input::open("profile", name, BUILTINS)?)
    }

    fn parse(source: &Text) -> Result<Profile, InputError> {
        let document = TomlDocument::new(source);
        let profile: Profile = document.read()?;
        let mut checker = Checker::new(&document);
        checker.text("name", &profile.name, "a name");
        checker.text("about", &profile.about, "a sentence");
        for number in profile.numbers() {
            number.check(&mut checker);
        }
        checker.finish(profile)
    }

    /// Keys of the numbers nobody published.
    #[must_use]
    pub fn estimates(&self) -> Vec<&'static str> {
        self.numbers().into_iter().filter(|number| number.sourced.is_estimate()).map(|number| number.key).collect()
    }

    /// All numbers with their keys and what they may be.
    fn numbers(&self) -> [Number<'_>; 18] {
        use Kind::{Real, Whole};
        let Profile { compute, queues, cycle, host, .. } = self;
        let number = |key, sourced, kind| Number { key, sourced, kind };
        [
            number("compute.cus", &compute.cus, Whole(1, 4096)),
            number("compute.waves_per_cu", &compute.waves_per_cu, Whole(1, 256)),
            number("compute.vgpr_kib_per_cu", &compute.vgpr_kib_per_cu, Whole(1, 4096)),
            number("compute.lds_kib_per_cu", &compute.lds_kib_per_cu, Whole(1, 1024)),
            number("compute.workgroups_per_cu", &compute.workgroups_per_cu, Whole(1, 256)),
            number("queues.hqds", &queues.hqds, Whole(1, 4096)),
            number("queues.vmids", &queues.vmids, Whole(1, 256)),
            number("queues.quantum_us", &queues.quantum_us, Real(1.0, 1e7)),
            number("queues.fetch_us", &queues.fetch_us, Real(0.0, 1e4)),
            number("cycle.firmware_us", &cycle.firmware_us, Real(0.0, 1e6)),
            number("cycle.grace_us", &cycle.grace_us, Real(0.0, 1e6)),
            number("cycle.vram_gb_s", &cycle.vram_gb_s, Real(0.01, 1e6)),
            number("cycle.host_gb_s", &cycle.host_gb_s, Real(0.01, 1e6)),
            number("cycle.wave_overhead_bytes", &cycle.wave_overhead_bytes, Whole(0, 1 << 20)),
            number("cycle.reset_us", &cycle.reset_us, Real(0.0, 1e6)),
            number("host.submit_us", &host.submit_us, Real(0.0, 1e5)),
            number("host.ioctl_us", &host.ioctl_us, Real(0.0, 1e5)),
            number("host.wakeup_us", &host.wakeup_us, Real(0.0, 1e5)),
        ]
    }
}

/// One number of a profile.
struct Number<'p> {
    key: &'static str,
    sourced: &'p Sourced,
    kind: Kind,
}

/// What a number may be, both ends included.
enum Kind {
    Whole(u32, u32),
    Real(f64, f64),
}

impl Number<'_> {
    fn check(&self, checker: &mut Checker<'_>) {
        let key = format!("{}.value", self.key);
        match self.kind {
            Kind::Whole(low, high) => {
                checker.whole(&key, self.sourced.value, low..=high);
            }
            Kind::Real(low, high) => {
                checker.number(&key, self.sourced.value, low..=high, "");
            }
        }
        checker.text(
            &format!("{}.source", self.key),
            &self.sourced.source,
            "a publication, a driver source, or \"estimate: \" and the reasoning",
        );
    }
}
