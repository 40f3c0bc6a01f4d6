//! Check of the scheduler in the kernel: whether it is loaded, and what would keep it from being loaded.

use gpreempt_kernel_abi::{DEVICE, ModuleVersion};
use gpreemptd::actuate::ActuatorChoice;

use super::Check;

/// `found` is the loaded module, or why there is none; `patched` whether the driver has the patch; `signed_only` why
/// the machine takes signed modules only, if it does.
pub(super) fn check(
    found: &kfd::Result<ModuleVersion>,
    patched: bool,
    configured: ActuatorChoice,
    signed_only: Option<&str>,
) -> Check {
    const NAME: &str = "kernel scheduler";
    let error = match found {
        Ok(version) => {
            let ModuleVersion { abi, hooks, features, .. } = version;
            let what = format!("{DEVICE}: version {abi}, hooks {hooks}, {features:?}; this user may claim it");
            return Check::ok(NAME, what);
        }
        Err(error) => error,
    };
    let insisted = configured == ActuatorChoice::Kernel;
    if !matches!(error, kfd::Error::NoKernelScheduler { .. }) {
        let error = error.to_string();
        let (what, remedy) = error.split_once("; ").unwrap_or((&error, "see `dmesg | grep -i gpreempt`"));
        return Check::warn(NAME, format!("loaded, but {what}"), remedy);
    }
    let driver = if patched { "the driver has the patch for it" } else { "the driver lacks the patch for it" };
    let mut what = format!("not loaded; {driver}");
    if let Some(reason) = signed_only {
        what = format!("{what}; {reason}: unsigned modules are refused");
    }
    if !insisted {
        return Check::ok(NAME, what);
    }
    let mut steps = Vec::new();
    steps.extend((!patched).then_some("install the driver with the patch of kernel/patch (docs/kernel.md)"));
    steps.extend(signed_only.map(|_| "sign the module with a key that the machine knows (`mokutil --import`)"));
    steps.push("`modprobe gpreempt`, or set `actuator = \"auto\"` in the configuration");
    Check::warn(NAME, what, steps.join("; "))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::CheckResult;
    use super::*;

    fn missing() -> kfd::Result<ModuleVersion> {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        Err(kfd::Error::NoKernelScheduler { path: DEVICE.into(), error })
    }

    #[test]
    fn what_refuses_unsigned_modules_is_said_where_the_module_is_missing() {
        let checked = check(&missing(), false, ActuatorChoice::Kernel, Some("Secure Boot is on"));
        assert_eq!(checked.result, CheckResult::Warn);
        let said = format!("{} {}", checked.found, checked.remedy.unwrap());
        for word in ["not loaded", "lacks the patch", "Secure Boot is on: unsigned", "mokutil", "modprobe"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        let unasked = check(&missing(), true, ActuatorChoice::Auto, None);
        assert_eq!((unasked.result, unasked.remedy), (CheckResult::Ok, None), "it is not needed");
        assert!(unasked.found.contains("has the patch"));
    }

    #[test]
    fn a_loaded_module_is_described_and_one_that_may_not_be_claimed_is_a_warning() {
        let version = ModuleVersion { abi: 1, hooks: 2, ..ModuleVersion::SIZED };
        let checked = check(&Ok(version), true, ActuatorChoice::Auto, None);
        assert!(checked.result == CheckResult::Ok && checked.found.contains("version 1, hooks 2"), "{}", checked.found);
        let error = io::Error::from_raw_os_error(libc::EPERM);
        let refused = kfd::Error::KernelScheduler { operation: "QUERY", about: "gpus".into(), error };
        let checked = check(&Err(refused), true, ActuatorChoice::Auto, None);
        assert_eq!(checked.result, CheckResult::Warn);
        assert!(checked.remedy.unwrap().contains("CAP_SYS_NICE"));
    }
}
