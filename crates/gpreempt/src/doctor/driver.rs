//! Checks of the driver, its settings and its gpus.

use std::fs;
use std::path::Path;

use kfd::topology::{self, Gpu};
use kfd::{Error, Kfd};

use super::Check;

/// Where the driver lists the processes that have it open.
const PROCESSES: &str = "/sys/class/kfd/kfd/proc";

/// Drivers that come with Linux know debug sessions since this one.
const FIRST_KERNEL: (u32, u32) = (6, 5);

/// The driver as found on this machine.
pub(super) struct Driver {
    kfd: kfd::Result<Kfd>,
    /// Empty if there are none, or the driver lists none.
    pub(super) gpus: Vec<Gpu>,
    topology: kfd::Result<()>,
}

impl Driver {
    pub(super) fn probe() -> Driver {
        let kfd = Kfd::open();
        let (gpus, topology) = match topology::gpus() {
            Ok(gpus) => (gpus, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        Driver { kfd, gpus, topology }
    }

    pub(super) fn checks(&self) -> Vec<Check> {
        let mut checks = vec![self.device(), self.version(), kernel(), self.found(), self.firmware()];
        checks.push(scheduler(topology::module_parameter("sched_policy").as_deref()));
        checks.push(saving(topology::module_parameter("cwsr_enable").as_deref()));
        checks.push(self.namespace());
        checks
    }

    fn device(&self) -> Check {
        const NAME: &str = "device";
        match &self.kfd {
            Ok(_) | Err(Error::Version { .. }) => Check::ok(NAME, "/dev/kfd can be opened"),
            Err(error) => {
                let error = error.to_string();
                let (found, remedy) = error.split_once("; ").unwrap_or((&error, "see `dmesg | grep -i kfd`"));
                Check::fail(NAME, found, remedy)
            }
        }
    }

    fn version(&self) -> Check {
        const NAME: &str = "driver interface";
        match &self.kfd {
            Ok(kfd) => Check::ok(NAME, format!("{}.{}", kfd.version().major, kfd.version().minor)),
            Err(Error::Version { major, minor, needed }) => Check::fail(
                NAME,
                format!("{major}.{minor}, debug sessions need 1.{needed}"),
                "update the kernel to 6.5 or newer, or install AMD's driver",
            ),
            Err(_) => Check::unknown(NAME, "the device cannot be opened"),
        }
    }

    fn found(&self) -> Check {
        const NAME: &str = "gpus";
        if let Err(error) = &self.topology {
            let error = error.to_string();
            let found = error.split_once("; ").map_or(error.as_str(), |(found, _)| found);
            return Check::fail(NAME, found, "load the driver: `modprobe amdgpu`");
        }
        if self.gpus.is_empty() {
            return Check::fail(NAME, "the driver lists none", "see `lspci -d 1002:` and `dmesg | grep -i amdgpu`");
        }
        let names: Vec<String> = self.gpus.iter().map(|gpu| format!("{} {}", gpu.address, gpu.name)).collect();
        let found = names.join(", ");
        let deaf: Vec<&str> = self.gpus.iter().filter(|gpu| !gpu.can_debug()).map(|gpu| gpu.address.as_str()).collect();
        if deaf.is_empty() {
            return Check::ok(NAME, found);
        }
        let remedy =
            format!("queues cannot be stopped on {}: the driver has no debug support for them", deaf.join(", "));
        if deaf.len() == self.gpus.len() { Check::fail(NAME, found, remedy) } else { Check::warn(NAME, found, remedy) }
    }

    fn firmware(&self) -> Check {
        const NAME: &str = "debug firmware";
        if self.gpus.is_empty() {
            return Check::unknown(NAME, "no gpu");
        }
        let old: Vec<String> = self
            .gpus
            .iter()
            .filter(|gpu| !gpu.firmware_can_debug())
            .map(|gpu| format!("{} has version {}", gpu.address, gpu.firmware))
            .collect();
        if old.is_empty() {
            return Check::ok(NAME, "on every gpu");
        }
        // One such gpu is enough for runtimes not to offer themselves on any.
        Check::fail(NAME, old.join(", "), "update linux-firmware (MI200 needs MEC firmware 51) and reboot")
    }

    /// The driver lists processes by their numbers outside of all containers. This process has it open, so it is
    /// listed, if these are its numbers.
    fn namespace(&self) -> Check {
        const NAME: &str = "pid namespace";
        if self.kfd.is_err() {
            return Check::unknown(NAME, "the device cannot be opened");
        }
        let pid = std::process::id();
        if Path::new(PROCESSES).join(pid.to_string()).exists() {
            return Check::ok(NAME, "the driver lists this process by its own pid");
        }
        Check::fail(
            NAME,
            format!("the driver does not list this process as {pid}"),
            "run gpreempt outside of containers, or in one that shares the host's pid namespace (`--pid=host`)",
        )
    }
}

fn kernel() -> Check {
    const NAME: &str = "kernel";
    let Ok(text) = fs::read_to_string("/proc/sys/kernel/osrelease") else {
        return Check::unknown(NAME, "/proc/sys/kernel/osrelease cannot be read");
    };
    let release = text.trim_end();
    match version(release) {
        Some(version) if version < FIRST_KERNEL => {
            Check::warn(NAME, release, "Linux before 6.5 needs AMD's own driver (amdgpu-dkms)")
        }
        Some(_) => Check::ok(NAME, release),
        None => Check::unknown(NAME, release),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn scheduler(policy: Option<&str>) -> Check {
    const NAME: &str = "hardware scheduler";
    match policy {
        None => Check::unknown(NAME, "the driver does not show sched_policy"),
        Some("2") => Check::fail(
            NAME,
            "off (sched_policy=2)",
            "load amdgpu with sched_policy=0: nothing can be stopped without it",
        ),
        Some("1") => Check::warn(
            NAME,
            "on, without over-subscription (sched_policy=1)",
            "programs beyond the hardware's queues fail to start; load amdgpu with sched_policy=0",
        ),
        Some(policy) => Check::ok(NAME, format!("on (sched_policy={policy})")),
    }
}

fn saving(enabled: Option<&str>) -> Check {
    const NAME: &str = "wave saving";
    match enabled {
        None => Check::unknown(NAME, "the driver does not show cwsr_enable"),
        Some("0") => Check::fail(
            NAME,
            "off (cwsr_enable=0)",
            "load amdgpu with cwsr_enable=1: without it a stop waits for running kernels to end",
        ),
        Some(enabled) => Check::ok(NAME, format!("on (cwsr_enable={enabled})")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckResult;
    use super::*;

    #[test]
    fn settings_that_forbid_stopping_fail() {
        assert_eq!(scheduler(Some("0")).result, CheckResult::Ok);
        assert_eq!(scheduler(Some("1")).result, CheckResult::Warn);
        assert_eq!(scheduler(Some("2")).result, CheckResult::Fail);
        assert_eq!(scheduler(None).result, CheckResult::Unknown);
        assert_eq!(saving(Some("1")).result, CheckResult::Ok);
        assert_eq!(saving(Some("0")).result, CheckResult::Fail);
    }

    #[test]
    fn releases_begin_with_a_version() {
        assert_eq!(version("6.12.115-2~deb12u1"), Some((6, 12)));
        assert_eq!(version("6.5"), Some((6, 5)));
        assert_eq!(version("next"), None);
    }
}
