//! What gpu a launcher wants, and whether one that runs already will do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{BUILD_ID, LaunchError};
use crate::options::Options;
use crate::profile::Profile;
use vgpu_driver::KernelProfile;

/// Longest name.
const LONGEST: usize = 64;

/// The name by which launchers of one user find the same virtual gpu, or those of all users one that root shares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name(String);

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a name has 1 to {LONGEST} characters of A-Z, a-z, 0-9, '.', '_' and '-'")]
pub struct NameError;

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let good = (1..=LONGEST).contains(&text.len()) && text.bytes().all(fits);
        if good { Ok(Name(text.to_owned())) } else { Err(NameError) }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What the user asked for in so many words. The rest may be as it is on a gpu that runs already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explicit {
    /// The profile.
    pub profile: bool,
    /// The number of compute units.
    pub cus: bool,
    /// The number of gpus.
    pub gpus: bool,
    /// The kind of read index.
    #[serde(default)]
    pub read_index: bool,
    /// The kernel.
    #[serde(default)]
    pub kernel: bool,
    /// The options.
    pub options: bool,
}

/// A gpu to be started or joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Build of the launcher: its programs talk to the supervisor in a format that goes with it.
    build: String,
    /// What gpu it is, with the wanted numbers of gpus and compute units.
    pub profile: Profile,
    /// Whose driver it has.
    #[serde(default)]
    pub kernel: KernelProfile,
    /// How it behaves.
    pub options: Options,
    /// The name to join it by; a gpu without one is for one program and what that starts.
    pub name: Option<Name>,
    /// Whether root's gpu is for all users. For a launcher of another user: that it joins root's gpu of this name.
    #[serde(default)]
    pub shared: bool,
    /// What must be so.
    pub explicit: Explicit,
}

impl Setup {
    /// A gpu of this profile for one program.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            build: BUILD_ID.to_owned(),
            profile,
            kernel: KernelProfile::default(),
            options: Options::default(),
            name: None,
            shared: false,
            explicit: Explicit::default(),
        }
    }

    /// Checks whether a launcher that wants this can use the gpu that runs already.
    ///
    /// # Errors
    /// What is different, and what to do.
    pub fn accepts(&self, running: &Setup) -> Result<(), String> {
        if self.build != running.build {
            return Err(LaunchError::OtherBuild.to_string());
        }
        let mut differences = self.differences(running);
        if self.shared && !running.shared {
            differences.push("it is not shared with other users".to_owned());
        }
        if differences.is_empty() {
            return Ok(());
        }
        let name = running.name.as_ref().map_or_else(String::new, |name| format!(" `{name}`"));
        Err(format!(
            "the virtual gpu{name} runs already and is another one: {}; leave these flags out to join it, or choose \
             another --name",
            differences.join("; ")
        ))
    }

    fn differences(&self, other: &Setup) -> Vec<String> {
        let running = &other.profile;
        let mut found = Vec::new();
        let mut differs = |asked: bool, what: &str, running: &dyn fmt::Display, wanted: &dyn fmt::Display| {
            if asked {
                found.push(format!("it has {what} {running}, asked for was {wanted}"));
            }
        };
        let (wanted, explicit) = (&self.profile, self.explicit);
        // What has a flag of its own is compared for itself.
        let Profile { cus, gpus, read_index, .. } = *wanted;
        let alike = Profile { cus, gpus, read_index, ..running.clone() };
        if alike.name == wanted.name {
            let edited = format!("another {}", wanted.name);
            differs(explicit.profile && alike != *wanted, "profile", &running.name, &edited);
        } else {
            differs(explicit.profile, "profile", &running.name, &wanted.name);
        }
        differs(explicit.cus && running.cus != wanted.cus, "--cus", &running.cus, &wanted.cus);
        differs(explicit.gpus && running.gpus != wanted.gpus, "--gpus", &running.gpus, &wanted.gpus);
        let kinds = (running.read_index.name(), read_index.name());
        differs(explicit.read_index && kinds.0 != kinds.1, "--read-index", &kinds.0, &kinds.1);
        let kernels = (other.kernel.name(), self.kernel.name());
        differs(explicit.kernel && kernels.0 != kernels.1, "--kernel", &kernels.0, &kernels.1);
        if explicit.options && other.options != self.options {
            found.push("its options for fault injection are different".to_owned());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ReadIndexKind;

    #[test]
    fn names_are_short_and_plain() {
        let longest = "x".repeat(64);
        for name in ["a", "A-b_c.9", &longest] {
            assert_eq!(name.parse::<Name>().map(|name| name.to_string()).as_deref(), Ok(name));
        }
        let long = "x".repeat(65);
        for name in ["", "a b", "a/b", "ü", "a\0", &long] {
            assert_eq!(name.parse::<Name>(), Err(NameError), "{name}");
        }
    }

    fn setup(profile: &str) -> Setup {
        Setup::new(Profile::load(profile).expect("built in"))
    }

    #[test]
    fn who_asks_for_nothing_joins_anything() {
        let running = Setup { options: Options { hang_at_cycle: Some(1), ..Options::default() }, ..setup("mi308x") };
        assert_eq!(setup("mi300x").accepts(&running), Ok(()));
    }

    #[test]
    fn who_asks_for_something_else_learns_what_there_is() {
        let running = Setup { name: Some("box".parse().expect("a name")), ..setup("mi308x") };
        let explicit = Explicit { profile: true, ..Explicit::default() };
        let error = Setup { explicit, ..setup("mi300x") }.accepts(&running).expect_err("another");
        for word in ["`box`", "mi308x", "mi300x", "--name"] {
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(Setup { explicit, ..setup("mi308x") }.accepts(&running), Ok(()));
    }

    #[test]
    fn compute_units_are_compared_only_if_asked_for() {
        let profile = |cus| Profile::load("mi300x").and_then(|profile| profile.with_cus(cus)).expect("possible");
        let running = Setup::new(profile(8));
        let by_profile = Explicit { profile: true, ..Explicit::default() };
        assert_eq!(Setup { explicit: by_profile, ..Setup::new(profile(16)) }.accepts(&running), Ok(()));
        let by_cus = Explicit { cus: true, ..Explicit::default() };
        let error = Setup { explicit: by_cus, ..Setup::new(profile(16)) }.accepts(&running).expect_err("another");
        assert!(error.contains("--cus 8") && error.contains("16"), "{error}");
    }

    #[test]
    fn the_kind_of_read_index_is_compared_only_if_asked_for() {
        let running = setup("mi300x");
        let mut wanted = setup("mi300x");
        wanted.profile.read_index = ReadIndexKind::Fetch;
        assert_eq!(wanted.accepts(&running), Ok(()));
        wanted.explicit.read_index = true;
        let error = wanted.accepts(&running).expect_err("another");
        assert!(error.contains("--read-index retire, asked for was fetch"), "{error}");
    }

    #[test]
    fn the_kernel_is_compared_only_if_asked_for() {
        let running = setup("mi300x");
        let mut wanted = Setup { kernel: KernelProfile::Linux7_2, ..setup("mi300x") };
        assert_eq!(wanted.accepts(&running), Ok(()));
        wanted.explicit.kernel = true;
        let error = wanted.accepts(&running).expect_err("another");
        assert!(error.contains("--kernel 6.12.115, asked for was 7.2"), "{error}");
    }

    #[test]
    fn programs_of_another_build_stay_away() {
        let running = setup("mi300x");
        let other = Setup { build: "another".to_owned(), ..setup("mi300x") };
        assert!(other.accepts(&running).is_err_and(|error| error.contains("another build")));
    }

    #[test]
    fn an_edited_profile_of_the_same_name_is_another() {
        let running = setup("mi300x");
        let mut wanted = setup("mi300x");
        wanted.explicit.profile = true;
        assert_eq!(wanted.accepts(&running), Ok(()));
        wanted.profile.vram_mib += 64;
        assert!(wanted.accepts(&running).is_err());
    }
}
