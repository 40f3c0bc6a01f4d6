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

/// `unswitchable` is why the driver cannot switch sets of queues, if it cannot.
pub(super) fn check(status: Option<&Status>, unswitchable: Option<&kfd::Error>, configured: ActuatorChoice) -> Check {
    const NAME: &str = "actuator";
    if let Some(kind) = status.and_then(|status| status.actuator) {
        return Check::ok(NAME, format!("{}, at work", kind.in_words()));
    }
    match (configured, unswitchable) {
        (ActuatorChoice::DebugTrap, _) => Check::ok(NAME, "debug trap, as configured"),
        (ActuatorChoice::Auto | ActuatorChoice::Combined, None) => Check::ok(NAME, "combined: one cycle for each plan"),
        (ActuatorChoice::Auto, Some(_)) => Check::ok(NAME, "debug trap: the driver cannot switch sets of queues"),
        (ActuatorChoice::Combined, Some(why)) => {
            let why = why.to_string();
            let (found, remedy) = why.split_once("; ").unwrap_or((&why, "see `dmesg | grep -i kfd`"));
            let remedy = format!("{remedy}; or set `actuator = \"auto\"` in the configuration");
            Check::warn(NAME, format!("combined, as configured, but {found}"), remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use gpreempt_proto::ActuatorKind;

    use super::super::CheckResult;
    use super::*;

    #[test]
    fn an_actuator_that_the_driver_lacks_is_a_warning_only_if_it_is_insisted_on() {
        let why = kfd::Error::Unswitchable { error: io::Error::from_raw_os_error(libc::ENOTTY) };
        let checked = |choice, why| check(None, why, choice);
        assert_eq!(checked(ActuatorChoice::Auto, Some(&why)).result, CheckResult::Ok);
        assert_eq!(checked(ActuatorChoice::DebugTrap, Some(&why)).result, CheckResult::Ok);
        assert!(checked(ActuatorChoice::Combined, None).found.starts_with("combined"));
        let insisted = checked(ActuatorChoice::Combined, Some(&why));
        assert_eq!(insisted.result, CheckResult::Warn);
        let remedy = insisted.remedy.unwrap();
        assert!(remedy.contains("kernel/patch") && remedy.contains("actuator = \"auto\""), "{remedy}");
        let status = Status { actuator: Some(ActuatorKind::DebugTrap), ..Status::default() };
        assert_eq!(check(Some(&status), None, ActuatorChoice::Auto).found, "debug trap, at work");
    }
}
