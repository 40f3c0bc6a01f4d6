//! Which actuator serves: as configured, and as the driver allows.

use std::fmt;
use std::str::FromStr;

use kfd::Switcher;

/// The setting `actuator` of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActuatorChoice {
    /// The combined actuator where the driver has it, else the debug trap.
    #[default]
    Auto,
    /// The driver's debug interface.
    DebugTrap,
    /// The interface of a patched driver, and no other.
    Combined,
}

impl ActuatorChoice {
    /// Every choice with its word in the configuration.
    pub const WORDS: [(&'static str, ActuatorChoice); 3] = [
        ("auto", ActuatorChoice::Auto),
        ("debug-trap", ActuatorChoice::DebugTrap),
        ("combined", ActuatorChoice::Combined),
    ];

    /// Returns its word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ActuatorChoice::Auto => "auto",
            ActuatorChoice::DebugTrap => "debug-trap",
            ActuatorChoice::Combined => "combined",
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

/// The actuator that serves.
#[derive(Debug)]
pub(super) enum Chosen<S> {
    DebugTrap {
        /// Why it is not the combined one, if that would have been preferred.
        instead: Option<kfd::Error>,
    },
    Combined(S),
}

/// Chooses; `open` asks the driver.
///
/// # Errors
///
/// If only the combined actuator will do and the driver does not have it.
pub(super) fn choose<S>(choice: ActuatorChoice, open: impl FnOnce() -> kfd::Result<S>) -> kfd::Result<Chosen<S>> {
    match choice {
        ActuatorChoice::DebugTrap => Ok(Chosen::DebugTrap { instead: None }),
        ActuatorChoice::Combined => open().map(Chosen::Combined),
        ActuatorChoice::Auto => {
            Ok(open().map_or_else(|why| Chosen::DebugTrap { instead: Some(why) }, Chosen::Combined))
        }
    }
}

/// Returns why the driver cannot serve a choice, with the remedy. Opens the driver if the choice depends on it, which
/// makes the caller one of its processes for as long as it lives.
#[must_use]
pub fn unavailable(choice: ActuatorChoice) -> Option<String> {
    let why = match choice {
        ActuatorChoice::Combined => Switcher::open().err()?,
        ActuatorChoice::Auto | ActuatorChoice::DebugTrap => return None,
    };
    Some(format!("actuator = \"combined\" is not available: {why}; or set actuator = \"auto\" in the configuration"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn without() -> kfd::Result<()> {
        Err(kfd::Error::Unswitchable { error: io::Error::from_raw_os_error(nix::libc::ENOTTY) })
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
        assert!(matches!(choose(ActuatorChoice::Auto, || Ok(())), Ok(Chosen::Combined(()))));
        assert!(matches!(choose(ActuatorChoice::Auto, without), Ok(Chosen::DebugTrap { instead: Some(_) })));
        assert!(matches!(choose(ActuatorChoice::Combined, || Ok(())), Ok(Chosen::Combined(()))));
        let said = choose(ActuatorChoice::Combined, without).unwrap_err().to_string();
        assert!(said.contains("cannot switch sets of queues") && said.contains("kernel/patch"), "{said}");
        let never = || -> kfd::Result<()> { panic!("the driver is not asked") };
        assert!(matches!(choose(ActuatorChoice::DebugTrap, never), Ok(Chosen::DebugTrap { instead: None })));
    }
}
