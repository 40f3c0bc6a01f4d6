//! Which actuator serves: as configured, and as the driver allows.

use std::fmt;
use std::str::FromStr;

use std::thread;
use std::time::{Duration, Instant};

use kfd::{KernelScheduler, Switcher};

/// How long a claim waits for another policy host to leave: that of a daemon which has just ended.
const LEAVING: Duration = Duration::from_secs(2);

/// Time between two claims.
const AGAIN: Duration = Duration::from_millis(20);

/// The setting `actuator` of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActuatorChoice {
    /// The scheduler in the kernel where it is loaded, else the combined actuator where the driver has it, else the
    /// debug trap.
    #[default]
    Auto,
    /// The driver's debug interface.
    DebugTrap,
    /// The interface of a patched driver, and no other.
    Combined,
    /// The scheduler in the kernel, and no other: it also watches and decides.
    Kernel,
}

impl ActuatorChoice {
    /// Every choice with its word in the configuration.
    pub const WORDS: [(&'static str, ActuatorChoice); 4] = [
        ("auto", ActuatorChoice::Auto),
        ("debug-trap", ActuatorChoice::DebugTrap),
        ("combined", ActuatorChoice::Combined),
        ("kernel", ActuatorChoice::Kernel),
    ];

    /// Returns its word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ActuatorChoice::Auto => "auto",
            ActuatorChoice::DebugTrap => "debug-trap",
            ActuatorChoice::Combined => "combined",
            ActuatorChoice::Kernel => "kernel",
        }
    }
}

impl fmt::Display for ActuatorChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ActuatorChoice {
    type Err = String;

    fn from_str(word: &str) -> Result<ActuatorChoice, String> {
        let found = ActuatorChoice::WORDS.iter().find(|(name, _)| *name == word);
        found.map(|(_, choice)| *choice).ok_or_else(|| format!("{word:?} is no actuator"))
    }
}

/// What an actuator is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActuatorOptions {
    /// Which one serves.
    pub choice: ActuatorChoice,
    /// How long the scheduler in the kernel keeps the policy without a daemon.
    pub keep: Duration,
}

impl ActuatorOptions {
    /// Returns the arguments that say the same to `gpreempt guardian` and `gpreempt actuator`.
    pub(super) fn arguments(self) -> [String; 4] {
        let keep_ms = self.keep.as_millis().to_string();
        ["--actuator".into(), self.choice.as_str().into(), "--keep-ms".into(), keep_ms]
    }
}

impl From<ActuatorChoice> for ActuatorOptions {
    /// Nothing is kept.
    fn from(choice: ActuatorChoice) -> ActuatorOptions {
        ActuatorOptions { choice, keep: Duration::ZERO }
    }
}

/// The actuator that serves. Where another would have been preferred: why it does not.
#[derive(Debug)]
pub(super) enum Chosen<K, S> {
    Kernel(K),
    Combined { switcher: S, instead: Option<kfd::Error> },
    DebugTrap { instead: Vec<kfd::Error> },
}

/// Chooses; `claim` asks the scheduler in the kernel, `open` the driver.
///
/// # Errors
///
/// If only one actuator will do and it is not there. Also if the scheduler in the kernel has another policy host: two
/// schedulers would undo each other's stops.
pub(super) fn choose<K, S>(
    choice: ActuatorChoice,
    claim: impl FnOnce() -> kfd::Result<K>,
    open: impl FnOnce() -> kfd::Result<S>,
) -> kfd::Result<Chosen<K, S>> {
    match choice {
        ActuatorChoice::DebugTrap => Ok(Chosen::DebugTrap { instead: Vec::new() }),
        ActuatorChoice::Combined => open().map(|switcher| Chosen::Combined { switcher, instead: None }),
        ActuatorChoice::Kernel => claim().map(Chosen::Kernel),
        ActuatorChoice::Auto => {
            let no_kernel = match claim() {
                Ok(kernel) => return Ok(Chosen::Kernel(kernel)),
                Err(error) if error.is_claimed() => return Err(error),
                Err(error) => error,
            };
            Ok(match open() {
                Ok(switcher) => Chosen::Combined { switcher, instead: Some(no_kernel) },
                Err(no_switch) => Chosen::DebugTrap { instead: vec![no_kernel, no_switch] },
            })
        }
    }
}

/// Becomes the policy host of the scheduler in the kernel. Waits for an earlier one that is just leaving.
///
/// # Errors
///
/// As [`KernelScheduler::open`] and [`KernelScheduler::claim`].
pub(super) fn claim_kernel(keep: Duration) -> kfd::Result<KernelScheduler> {
    let kernel = KernelScheduler::open()?;
    let deadline = Instant::now() + LEAVING;
    loop {
        match kernel.claim(keep) {
            Err(error) if error.is_claimed() && Instant::now() < deadline => thread::sleep(AGAIN),
            outcome => return outcome.map(|()| kernel),
        }
    }
}

/// Returns why the machine cannot serve a choice, with the remedy. Opens the driver if the choice depends on it, which
/// makes the caller one of its processes for as long as it lives; claims nothing.
#[must_use]
pub fn unavailable(choice: ActuatorChoice) -> Option<String> {
    let why = match choice {
        ActuatorChoice::Combined => Switcher::open().err()?,
        // The list needs the rights of a claim, and has no consequences.
        ActuatorChoice::Kernel => KernelScheduler::open().and_then(|kernel| kernel.gpus()).err()?,
        ActuatorChoice::Auto | ActuatorChoice::DebugTrap => return None,
    };
    Some(format!("actuator = \"{choice}\" is not available: {why}; or set actuator = \"auto\" in the configuration"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn without_patch() -> kfd::Result<()> {
        Err(kfd::Error::Unswitchable { error: io::Error::from_raw_os_error(nix::libc::ENOTTY) })
    }

    fn without_module() -> kfd::Result<()> {
        let error = io::Error::from_raw_os_error(nix::libc::ENOENT);
        Err(kfd::Error::NoKernelScheduler { path: "/dev/gpreempt".into(), error })
    }

    fn claimed(errno: i32) -> kfd::Result<()> {
        let error = io::Error::from_raw_os_error(errno);
        Err(kfd::Error::KernelScheduler { operation: "CLAIM", about: "the policy".into(), error })
    }

    fn there() -> kfd::Result<()> {
        Ok(())
    }

    fn never() -> kfd::Result<()> {
        panic!("it is not asked")
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for (word, choice) in ActuatorChoice::WORDS {
            assert_eq!((choice.as_str(), word.parse()), (word, Ok(choice)));
        }
        assert!("trap".parse::<ActuatorChoice>().is_err());
    }

    #[test]
    fn the_choice_falls_back_only_where_it_may() {
        assert!(matches!(
            choose(ActuatorChoice::Auto, without_module, there),
            Ok(Chosen::Combined { instead: Some(_), .. })
        ));
        let Ok(Chosen::DebugTrap { instead }) = choose(ActuatorChoice::Auto, without_module, without_patch) else {
            panic!("the debug trap is left");
        };
        assert_eq!(instead.len(), 2, "it says why neither of the others serves");
        assert!(matches!(choose(ActuatorChoice::Combined, never, there), Ok(Chosen::Combined { instead: None, .. })));
        let said = choose(ActuatorChoice::Combined, never, without_patch).unwrap_err().to_string();
        assert!(said.contains("cannot switch sets of queues") && said.contains("kernel/patch"), "{said}");
        assert!(matches!(
            choose(ActuatorChoice::DebugTrap, never, never),
            Ok(Chosen::DebugTrap { instead }) if instead.is_empty()
        ));
    }

    #[test]
    fn the_scheduler_in_the_kernel_is_preferred_and_not_replaced_where_it_is_insisted_on() {
        for choice in [ActuatorChoice::Auto, ActuatorChoice::Kernel] {
            assert!(matches!(choose(choice, there, never), Ok(Chosen::Kernel(()))), "{choice}");
        }
        let said = choose(ActuatorChoice::Kernel, without_module, never).unwrap_err().to_string();
        assert!(said.contains("/dev/gpreempt") && said.contains("modprobe gpreempt"), "{said}");
        let forbidden = || claimed(nix::libc::EPERM);
        assert!(matches!(choose(ActuatorChoice::Auto, forbidden, there), Ok(Chosen::Combined { .. })));
    }

    #[test]
    fn beside_another_policy_host_nothing_is_switched() {
        let said = choose(ActuatorChoice::Auto, || claimed(nix::libc::EBUSY), never).unwrap_err().to_string();
        assert!(said.contains("another daemon is its policy host"), "{said}");
    }

    #[test]
    fn an_actuator_that_is_insisted_on_and_missing_is_refused_with_the_remedy() {
        if !std::path::Path::new("/dev/gpreempt").exists() {
            let said = unavailable(ActuatorChoice::Kernel).unwrap();
            assert!(said.starts_with("actuator = \"kernel\" is not available: "), "{said}");
            assert!(said.contains("modprobe gpreempt") && said.contains("actuator = \"auto\""), "{said}");
        }
        assert_eq!(unavailable(ActuatorChoice::Auto), None);
    }
}
