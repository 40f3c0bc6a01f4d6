//! Check of the actuator: which one serves, or would.

use std::path::Path;

use anyhow::Result;
use gpreempt_proto::Status;
use gpreemptd::actuate::ActuatorChoice;
use gpreemptd::config::Config;
use gpreemptd::daemon::CONFIG;

use super::Check;

/// Returns the choice of the configuration: the daemon's, or the one that it would read. What cannot be read chooses
/// nothing here; the daemon says what is wrong with it.
pub(super) fn configured(status: &Result<Status>) -> ActuatorChoice {
    let path = match status {
        Ok(status) => status.config.as_deref(),
        Err(_) => Some(CONFIG),
    };
    let config = path.and_then(|path| Config::load(Path::new(path)).ok());
    config.map(|config| config.actuator).unwrap_or_default()
}

/// Why actuators cannot serve; absent for those that can.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The scheduler in the kernel.
    pub(super) kernel: Option<kfd::Error>,
    /// The driver with the patch.
    pub(super) switch: Option<kfd::Error>,
}

pub(super) fn check(status: Option<&Status>, answers: &Answers, configured: ActuatorChoice) -> Check {
    const NAME: &str = "actuator";
    if let Some(kind) = status.and_then(|status| status.actuator) {
        return Check::ok(NAME, format!("{}, at work", kind.in_words()));
    }
    match (configured, &answers.kernel, &answers.switch) {
        (ActuatorChoice::DebugTrap, ..) => Check::ok(NAME, "debug trap, as configured"),
        (ActuatorChoice::Auto | ActuatorChoice::Kernel, None, _) => {
            Check::ok(NAME, "kernel: it watches and decides, one cycle for each plan")
        }
        (ActuatorChoice::Auto | ActuatorChoice::Combined, _, None) => {
            Check::ok(NAME, "combined: one cycle for each plan")
        }
        (ActuatorChoice::Auto, ..) => Check::ok(NAME, "debug trap: the driver cannot switch sets of queues"),
        (ActuatorChoice::Combined, _, Some(why)) | (ActuatorChoice::Kernel, Some(why), _) => {
            let why = why.to_string();
            let (found, remedy) = why.split_once("; ").unwrap_or((&why, "see `dmesg | grep -i kfd`"));
            let remedy = format!("{remedy}; or set `actuator = \"auto\"` in the configuration");
            Check::warn(NAME, format!("{configured}, as configured, but {found}"), remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use gpreempt_proto::ActuatorKind;

    use super::super::CheckResult;
    use super::*;

    /// What a machine with neither answers, less what it is said to have.
    fn answers(kernel: bool, patch: bool) -> Answers {
        let error = |errno| io::Error::from_raw_os_error(errno);
        let missing = kfd::Error::NoKernelScheduler { path: "/dev/gpreempt".into(), error: error(libc::ENOENT) };
        let unpatched = kfd::Error::Unswitchable { error: error(libc::ENOTTY) };
        Answers { kernel: (!kernel).then_some(missing), switch: (!patch).then_some(unpatched) }
    }

    #[test]
    fn an_actuator_that_the_machine_lacks_is_a_warning_only_if_it_is_insisted_on() {
        let checked = |choice, kernel, patch| check(None, &answers(kernel, patch), choice);
        assert_eq!(checked(ActuatorChoice::Auto, false, false).result, CheckResult::Ok);
        assert_eq!(checked(ActuatorChoice::DebugTrap, false, false).result, CheckResult::Ok);
        assert!(checked(ActuatorChoice::Combined, true, true).found.starts_with("combined"));
        assert!(checked(ActuatorChoice::Auto, false, true).found.starts_with("combined"));
        assert!(checked(ActuatorChoice::Auto, true, true).found.starts_with("kernel"));
        for (choice, named) in
            [(ActuatorChoice::Combined, "kernel/patch"), (ActuatorChoice::Kernel, "modprobe gpreempt")]
        {
            let insisted = checked(choice, false, false);
            assert_eq!(insisted.result, CheckResult::Warn);
            let remedy = insisted.remedy.unwrap();
            assert!(remedy.contains(named) && remedy.contains("actuator = \"auto\""), "{remedy}");
        }
        let status = Status { actuator: Some(ActuatorKind::DebugTrap), ..Status::default() };
        assert_eq!(check(Some(&status), &answers(false, true), ActuatorChoice::Auto).found, "debug trap, at work");
    }
}
